"""Finds steps far slower than those before them, and says which of their parts grew."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappush, heappushpop
from math import inf, isnan
from statistics import median

from ... import units
from ...results.run import SlowStep
from .intervals import Timed
from .step import Step

RECENT = 50
"""Steps that a step is compared with."""
LEAST = 10
FAR = 2.0
"""A step this many times as long as the median is slow."""
LEAST_EXCESS = 0.001
"""Seconds. A step that is longer by less is not worth a word."""
LONGER = 1.2
"""Work this many times the median explains a slow step by itself."""
MOST_KEPT = 200
MOST_FRESH = 20
SIZES = ("FLOPs", "tokens", "samples")
Noted = tuple[float, ...]
"""Seconds of a step in all, and of data wait, forward and backward; FLOPs, tokens and samples, nan if not known."""
PARTS = ("waiting for data", "forward", "backward", "the optimizer and the rest of the loop")


class SlowSteps:
    """The slow steps of a run; the slowest are kept."""

    def __init__(self, *, queues: bool, retries: Callable[[], int] = lambda: 0) -> None:
        """`retries` tells how often the allocator had to give cached memory back; it is asked after a slow step only."""
        self._slowest: list[tuple[float, int, SlowStep]] = []
        self._fresh: list[SlowStep] = []
        """Those found since they were last handed over."""
        self._queues = queues
        self._retries = retries
        self.retried = retries()
        """The allocator's retries when they were last read, at the end of an interval."""
        self._recent: deque[Noted] = deque(maxlen=RECENT)
        self._usual = self._far = inf
        self._usual_parts: list[float] | None = None
        """Medians of the parts, found out when a step is slow."""
        self._since = 0

    @property
    def found(self) -> tuple[SlowStep, ...]:
        """The slowest steps, in their order."""
        return tuple(sorted((slow for _, _, slow in self._slowest), key=lambda slow: slow.step))

    def add(self, steps: Iterable[Timed]) -> list[Step]:
        """Note some steps; gives the slow ones."""
        slow = []
        for timed in steps:
            _, step, seconds, wait = timed
            time, sums = step.time, step.sums
            noted = (seconds, wait, time.forward, time.backward, sums.flops, sums.tokens, sums.samples)
            if seconds > self._far:
                slow.append(step)
                self._keep(timed, noted)
            self._recent.append(noted)
            self._since += 1
            if self._since >= LEAST:
                self._since = 0
                self._usual_parts = None
                self._usual = median([recent[0] for recent in self._recent])
                self._far = max(FAR * self._usual, self._usual + LEAST_EXCESS)
        return slow

    def _keep(self, timed: Timed, noted: Noted) -> None:
        number, _, seconds, _ = timed
        slow = SlowStep(number, seconds, self._usual, self._why([column[0] for column in _columns([noted])]))
        if len(self._fresh) < MOST_FRESH:  # without sinks they are never asked for
            self._fresh.append(slow)
        keep = heappush if len(self._slowest) < MOST_KEPT else heappushpop
        keep(self._slowest, (seconds, number, slow))

    def _why(self, now: Sequence[float]) -> str:
        if self._usual_parts is None:
            self._usual_parts = [median(column) for column in _columns(self._recent)]
        usual, seconds = self._usual_parts, now[0]
        more, larger = _larger(now, usual)
        if more >= LONGER and more >= 0.75 * seconds / self._usual:
            return larger
        grown = sorted([(now[at] - usual[at], name) for at, name in enumerate(PARTS, start=1)], reverse=True)
        shown = [f"{name} +{units.seconds(by)}" for by, name in grown if by > 0.2 * (seconds - self._usual)][:2]
        if more >= LONGER:
            shown.insert(0, larger)
        retried, self.retried = self.retried, self._retries()
        if self.retried > retried:
            shown.insert(0, f"allocator retries +{self.retried - retried}")
        if self._queues and not shown:
            return "the device took longer, and no part of the loop on the host did"
        return ", ".join(shown) or "no single part grew"

    def take(self) -> list[SlowStep]:
        """Those found since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh


def _columns(steps: Iterable[Noted]) -> list[Sequence[float]]:
    """What was noted of steps by kind, with the rest of their time, and 0 for what is not known."""
    *times, flops, tokens, samples = zip(*steps, strict=True)
    rest = [whole - wait - forward - backward for whole, wait, forward, backward in zip(*times, strict=True)]
    sizes = [[0.0 if isnan(size) else size for size in column] for column in (flops, tokens, samples)]
    return [*times, rest, *sizes]


def _larger(now: Sequence[float], usual: Sequence[float]) -> tuple[float, str]:
    """How many times the usual work a step was, in words; by its tokens or samples if its FLOPs are not known."""
    for at, name in enumerate(SIZES, start=len(PARTS) + 1):
        if now[at] and usual[at]:
            times = now[at] / usual[at]
            return times, f"{times:.1f} times the usual {name} (a larger batch or longer sequences)"
    return 1.0, ""
