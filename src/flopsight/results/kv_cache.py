"""What a decoder keeps between its tokens: keys and values, or states; as a value that says how it grows."""

from __future__ import annotations

from dataclasses import dataclass

DYNAMIC, STATIC = "dynamic", "static"
CACHES = (DYNAMIC, STATIC)
KV_CACHE = "kv cache"
"""The kind of memory that a cache is, in `Profile.at_peak`."""
KV_COPIES = "kv cache, copied"
"""The part of a cache that grows which is there twice while it is copied."""


@dataclass(frozen=True)
class CachePart:
    """Keys and values of layers that keep equally many tokens."""

    token_bytes: int
    """Bytes of one token of one sequence, in all layers of this part."""
    window: int | None = None
    """Tokens that a layer keeps at most; None if it keeps all."""

    def tokens(self, seen: int) -> int:
        """Tokens kept after `seen` ones."""
        return seen if self.window is None else min(seen, self.window)


@dataclass(frozen=True)
class KVCache:
    """The cache of one sequence in closed form: what is kept after any number of tokens, and what a step moves of it."""

    kind: str = DYNAMIC
    """`dynamic` grows with the tokens, `static` is allocated for all of them at once."""
    parts: tuple[CachePart, ...] = ()
    state_bytes: int = 0
    """States that do not grow, as those of a state-space model."""
    encoded_bytes: int = 0
    """Keys and values of what an encoder read."""

    @property
    def grows(self) -> bool:
        """Whether a token can keep anything, as keys and values do and states do not."""
        return any(part.token_bytes for part in self.parts)

    def bytes_at(self, seen: int) -> int:
        """Bytes that one sequence keeps after `seen` tokens; of a static cache, if it is allocated for that many."""
        grown = sum(part.token_bytes * part.tokens(seen) for part in self.parts)
        return grown + self.state_bytes + self.encoded_bytes

    def bytes_moved(self, seen: int) -> int:
        """Bytes that a step of one sequence has to read and write at least, `seen` tokens before it.

        It reads all that is kept, and writes its own keys and values, or its states.
        """
        return self.bytes_at(seen) + sum(part.token_bytes for part in self.parts) + self.state_bytes


NO_CACHE = KVCache()
