"""Finds steps far slower than those before them, and says which of their parts grew."""

from __future__ import annotations

from collections import deque
from statistics import median

from ... import units
from ...results.run import SlowStep
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
WAIT, FORWARD, BACKWARD, REST = "waiting for data", "forward", "backward", "the optimizer and the rest of the loop"
Parts = tuple[float, float, float, float, float]


class SlowSteps:
    """The slow steps of a run; the slowest are kept."""

    def __init__(self, *, queues: bool) -> None:
        self.found: list[SlowStep] = []
        self.fresh: list[SlowStep] = []
        """Those found since they were last handed over."""
        self.usual: float | None = None
        self._queues = queues
        self._recent: deque[tuple[float, Parts]] = deque(maxlen=RECENT)
        self._since = 0

    def add(self, number: int, step: Step, seconds: float, validated: float = 0.0) -> SlowStep | None:
        """Note a step; gives it if it was slow."""
        if step.slowed:
            return None
        parts = _parts(step, seconds, validated)
        slow = None
        if self.usual is not None and seconds > FAR * self.usual and seconds > self.usual + LEAST_EXCESS:
            slow = SlowStep(number, seconds, self.usual, self._why(parts, seconds))
            self.fresh.append(slow)
            self.found = sorted([*self.found, slow], key=lambda one: -one.seconds)[:MOST_KEPT]
        self._recent.append((seconds, parts))
        self._since += 1
        if len(self._recent) >= LEAST and (self.usual is None or self._since >= LEAST):
            self._since = 0
            self.usual = median(seconds for seconds, _ in self._recent)
        return slow

    def _why(self, parts: Parts, seconds: float) -> str:
        names = (WAIT, FORWARD, BACKWARD, REST)
        usual = [median(each[at] for _, each in self._recent) for at in range(5)]
        assert self.usual is not None
        excess = seconds - self.usual
        work = parts[4] / usual[4] if usual[4] else 1.0
        if work >= LONGER and work >= 0.75 * seconds / self.usual:
            return f"{work:.1f} times the usual FLOPs: a larger batch or longer sequences"
        grown = sorted(((parts[at] - usual[at], names[at]) for at in range(4)), reverse=True)
        shown = [f"{name} +{units.seconds(more)}" for more, name in grown if more > 0.2 * excess]
        if self._queues and not shown:
            return "the device took longer, and no part of the loop on the host did"
        return ", ".join(shown[:2]) or "no single part grew"

    def take(self) -> list[SlowStep]:
        """Those found since the last call."""
        fresh, self.fresh = self.fresh[:20], []
        return fresh


def _parts(step: Step, seconds: float, validated: float) -> Parts:
    wait = 0.0 if step.first_call is None else max(0.0, step.first_call - step.host_began - validated)
    rest = max(0.0, seconds - wait - step.forward - step.backward)
    return wait, step.forward, step.backward, rest, 0.0 if step.work is None else step.work.flops
