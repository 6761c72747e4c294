"""Speculative decoding in closed form: a draft proposes tokens one by one, the model checks all of them in one forward."""

from __future__ import annotations

from dataclasses import dataclass

from .. import units
from .limits.step_load import CACHE, Load, Piece
from .serving import Serving

LONGEST = 32
"""Draft lengths that are looked at for the best one."""


def expected_tokens(acceptance: float, length: int) -> float:
    """Tokens that a round is expected to give a sequence, if each drafted one is accepted with this chance.

    The drafted tokens up to the first that is refused, and one of the model's own.

    >>> expected_tokens(0.5, 2)
    1.75
    """
    return length + 1.0 if acceptance == 1 else float((1 - acceptance ** (length + 1)) / (1 - acceptance))


@dataclass(frozen=True)
class Speculation:
    """A round on a device: the least seconds of its drafts and of its check, and what it gives."""

    length: int
    acceptance: float
    draft: float
    check: float
    batch: int
    plain: float
    """The least seconds of a step without a draft."""

    @property
    def tokens(self) -> float:
        """New tokens of each sequence in a round, expected."""
        return expected_tokens(self.acceptance, self.length)

    @property
    def per_output_token(self) -> float:
        """The least seconds of a round over the tokens that it gives each sequence."""
        return (self.draft + self.check) / self.tokens

    @property
    def tokens_per_second(self) -> float:
        """The most new tokens a second of the batch."""
        return self.batch / self.per_output_token

    @property
    def gain(self) -> float:
        """How many times as many tokens a second as without a draft."""
        return self.plain / self.per_output_token


def speculate(serving: Serving, length: int | None = None) -> Speculation | None:
    """A round with the draft of a generation, at its own draft length or another; None without a draft or a peak."""
    made, draft, ceilings = serving.made, serving.made.draft, serving.ceilings
    if draft is None or ceilings is None:
        return None
    length = length or draft.length
    written = sum(part.token_bytes for part in made.kv.parts)
    check = several(serving.step_load(), length + 1, written).least(ceilings, made.batch)
    drafted = Serving(draft.made, serving.device).step_load().least(ceilings, made.batch)
    plain = serving.per_output_token()
    if check is None or drafted is None or plain is None:
        return None
    return Speculation(length, draft.acceptance, length * drafted.limit, check.limit, made.batch, plain)


def best_length(serving: Serving) -> int | None:
    """The draft length with the least time per token."""
    found = [speculate(serving, length) for length in range(1, LONGEST + 1)]
    known = [one for one in found if one is not None]
    return min(known, key=lambda one: one.per_output_token).length if known else None


def several(load: Load, tokens: int, written: float) -> Load:
    """A step with so many tokens of each sequence: products grow, weights and the cache are read once.

    `written` are the bytes of the cache that one token of one sequence adds.
    """
    pieces = {
        path: Piece(
            {key: macs * tokens for key, macs in piece.macs.items()},
            piece.weights,
            piece.rows * tokens,
            piece.experts,
            piece.cache + (written * (tokens - 1) if path == CACHE else 0.0),
        )
        for path, piece in load.pieces.items()
    }
    return Load(pieces, load.tokens * tokens)


def draft_text(serving: Serving) -> str:
    """What a draft model brings, in a sentence; empty without one."""
    found, draft = speculate(serving), serving.made.draft
    if found is None or draft is None:
        return ""
    best = best_length(serving)
    other = "" if best in (None, found.length) else f"; {best} drafted tokens would be best"
    return (
        f"at least {units.seconds(found.per_output_token)} a token, {found.gain:.2f}x the rate, with {found.length} tokens from "
        f"{draft.made.prefill.root.kind} ({draft.made.prefill.root.params_text}) in a round and {units.percent(found.acceptance)} of them "
        f"accepted: {found.tokens:.2f} tokens in {units.seconds(found.draft)} of drafts and {units.seconds(found.check)} of a check{other}"
    )
