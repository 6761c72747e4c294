"""The peaks of prefill and decoding at another batch, or with other prompts, from those that were counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ..results.generation import Generation
from ..results.kv_cache import KV_CACHE, STATIC

LASTING = ("parameters", "buffers")
"""Kinds of memory that do not grow with the batch."""
T = TypeVar("T")
Points = Sequence[tuple[float, float]]


class Peaks:
    """The peaks of a generation.

    A peak is the largest of what is alive at several moments, each of which grows along a line with the sequences, and along a line or a square
    with the tokens of a prompt. Two small sizes and two large ones were counted, and each two say how it grows near them.
    """

    def __init__(self, made: Generation) -> None:
        self.made = made

    def prefill(self, batch: int, prompt: int) -> float:
        """Bytes at the peak of the prompts."""
        kinds = self.made.prefill.at_peak
        wider = self._of_batch("prefill", kinds, batch) / (_beside(kinds) or 1)
        return lasting(kinds) + wider * self._of_prompt("prefill", kinds, prompt, 0)

    def decode(self, batch: int, prompt: int) -> float:
        """Bytes at the peak of the last step: those of the first, and what the tokens in between add."""
        made, new = self.made, self.made.new_tokens
        first, last = made.first.at_peak, made.last.at_peak
        wider = self._of_batch("step", first, batch) / (_beside(first) or 1)
        longer = self._kept(prompt, new) / self._kept(made.prompt, new) * last.get(KV_CACHE, 0)
        longer -= self._kept(prompt, 1) / self._kept(made.prompt, 1) * first.get(KV_CACHE, 0)
        later = batch / made.batch * (longer + _fleeting(last) - _fleeting(first))
        return lasting(last) + wider * self._of_prompt("step", first, prompt, 1) + later

    def _of_batch(self, part: str, own: Mapping[str, int], batch: int) -> float:
        """Bytes beside what lasts, with so many sequences."""
        made = self.made
        others = [(one.batch, _beside(getattr(one, part))) for one in made.samples if one.prompt == made.prompt]
        points = sorted([(made.batch, _beside(own)), *(others or [(0, 0)])])
        return _between(points, batch, lambda pair: _on_line(pair, batch))

    def _of_prompt(self, part: str, own: Mapping[str, int], prompt: int, new: int) -> float:
        """Bytes beside what lasts, with prompts of so many tokens: the cache by its closed form, and what comes and goes."""
        made = self.made
        found = {one.prompt: getattr(one, part) for one in made.samples if one.batch == made.batch}
        sizes: list[tuple[int, Mapping[str, int]]] = sorted({**found, made.prompt: own}.items())

        def height(pair: Sequence[tuple[int, Mapping[str, int]]]) -> float:
            counted, kinds = pair[-1]
            cache = self._kept(prompt, new) / self._kept(counted, new) * kinds.get(KV_CACHE, 0)
            return cache + _grown([(tokens, _fleeting(its)) for tokens, its in pair], prompt)

        return _between(sizes, prompt, height)

    def _kept(self, prompt: int, new: int) -> float:
        """The cache of one sequence after another prompt; an encoder's keys and values grow with what it reads."""
        made, kv = self.made, self.made.kv
        new = made.new_tokens if kv.kind == STATIC else new
        if kv.encoded_bytes:
            return kv.bytes_at(made.seen + new) + kv.encoded_bytes * (prompt / made.prompt - 1)
        return kv.bytes_at(prompt + new) or 1


def lasting(kinds: Mapping[str, int]) -> int:
    """Bytes of parameters and buffers."""
    return sum(kinds.get(kind, 0) for kind in LASTING)


def _beside(kinds: Mapping[str, int]) -> int:
    """Bytes beside parameters and buffers."""
    return sum(size for kind, size in kinds.items() if kind not in LASTING)


def _fleeting(kinds: Mapping[str, int]) -> int:
    """What is alive at the peak beside parameters, buffers and the cache."""
    return _beside(kinds) - kinds.get(KV_CACHE, 0)


def _between(sizes: Sequence[tuple[int, T]], wanted: int, height: Callable[[Sequence[tuple[int, T]]], float]) -> float:
    """The height over a size: of a line through the two smallest sizes up to the second, through the two largest from the first of them on.

    In between the higher one of both, since the peak moves where they meet, but not above the line between them.
    """
    near, far = sizes[:2], sizes[-2:]
    if wanted <= near[-1][0]:
        return height(near)
    if wanted >= far[0][0]:
        return height(far)
    return min(height([near[-1], far[0]]), max(height(near), height(far)))


def _grown(points: Points, tokens: int) -> float:
    """Bytes of so many tokens: if each takes more in a longer prompt, as with scores or masks of all pairs, on a square; else on a line."""
    each = [(size, height / size) for size, height in points]
    if len(points) == 1 or each[-1][1] >= each[0][1]:
        return tokens * _on_line(each, tokens)
    return _on_line(points, tokens)


def _on_line(points: Points, x: float) -> float:
    """The height at `x` of the line through two points; level if there is one alone."""
    (before, y), (behind, other) = points[0], points[-1]
    return y if before == behind else y + (other - y) / (behind - before) * (x - before)
