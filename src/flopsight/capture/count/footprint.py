"""What was alive over a step: the peak with what was alive at it, and a curve of a few hundred points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ...results.memory_curve import MemoryCurve
from ..model.sites import Site

MOST_POINTS = 500
"""Points that a curve keeps."""


@dataclass(frozen=True)
class Footprint:
    """Most bytes alive at once, what they were and whose; and how memory rose and fell."""

    peak: int
    kinds: Mapping[str, int]
    rows: Mapping[Site, int]
    curve: MemoryCurve


@dataclass(frozen=True)
class History:
    """Storages by number, and every change of their sizes in the order in which it happened."""

    before: Sequence[tuple[int, int]]
    """Storages that are there when the step begins, each with its size."""
    events: Sequence[tuple[int, int]]
    """A storage, and by how many bytes it grew or shrank."""
    kind: Sequence[str]
    """What each storage is."""
    maker: Sequence[Site | None]
    """The row whose op made each storage; None if no op did."""
    phases: Mapping[int, str]
    """The phase that begins with an event, by the event's number."""


def footprint(history: History) -> Footprint:
    """The peak of a step, and its curve."""
    start = sum(size for _, size in history.before)
    totals = list(accumulate((change for _, change in history.events), initial=start))
    peak = max(totals)
    highest = totals.index(peak)
    rows: Counter[Site] = Counter()
    for birth, change in history.events[:highest]:
        maker = history.maker[birth]
        if maker is not None:
            rows[maker] += change
    curve = _curve(history, chosen(totals))
    place = curve.at.index(highest)
    kinds = {kind: sizes[place] for kind, sizes in curve.kinds.items() if sizes[place]}
    return Footprint(peak, kinds, +rows, curve)


def chosen(totals: Sequence[int], most: int = MOST_POINTS) -> list[int]:
    """Numbers of at most `most` totals: first, last, and of equal stretches the highest and the lowest."""
    if len(totals) <= most:
        return list(range(len(totals)))
    stretch = -(-len(totals) // (most // 2 - 1))
    found = {0, len(totals) - 1}
    for begin in range(0, len(totals), stretch):
        part = totals[begin : begin + stretch]
        found |= {begin + part.index(max(part)), begin + part.index(min(part))}
    return sorted(found)


def _curve(history: History, points: Sequence[int]) -> MemoryCurve:
    now: Counter[str] = Counter()
    for birth, size in history.before:
        now[history.kind[birth]] += size
    module, phase, done = "", "", 0
    samples, modules, phases = [], [], []
    for point in points:
        for number in range(done, point):
            birth, change = history.events[number]
            now[history.kind[birth]] += change
            maker = history.maker[birth]
            if change > 0 and maker is not None:
                module = maker.path
            phase = history.phases.get(number, phase)
        done = point
        samples.append(now.copy())
        modules.append(module)
        phases.append(phase)
    kinds = {kind: tuple(sample[kind] for sample in samples) for kind in now}
    return MemoryCurve(
        tuple(points), {kind: sizes for kind, sizes in kinds.items() if any(sizes)}, tuple(modules), tuple(phases)
    )
