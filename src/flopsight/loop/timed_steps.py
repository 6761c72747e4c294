"""Times of the steps of a window that ran with light marks only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..capture.model.sites import Site
from ..capture.time.clock import Clock
from ..capture.time.loop_marks import PhaseMarks
from ..capture.time.module_marks import Timer
from ..results.timings import Stat, Timing

TIMED = ("forward", "backward", "optimizer")


@dataclass(frozen=True)
class TimedStep:
    """A step of the window that ran with light marks only."""

    number: int
    marks: PhaseMarks
    timer: Timer | None
    """Times of modules, on the host."""
    wait: float
    """Seconds from the begin of the step to the first call of a model."""
    whole: float

    @property
    def length(self) -> float:
        """Seconds from the first call of the model to the last mark."""
        begin, end = self.marks.bounds or (0.0, 0.0)
        return Clock.seconds(begin, end)


def work_of(marks: PhaseMarks) -> list[tuple[Site, Any]]:
    """The models that a step called and with which shapes; steps with equal work cost the same."""
    return [(call.site, call.shapes) for call in marks.calls]


def timing_of(timed: Sequence[TimedStep], counted: PhaseMarks) -> Timing:
    """Medians over the timed steps; without any, the times of the counted one."""
    marks = [step.marks for step in timed] or ([counted] if counted.bounds is not None else [])
    stats = {name: Stat(tuple(one.seconds(name) for one in marks)) for name in TIMED if marks}
    ran = {name: stat for name, stat in stats.items() if any(stat.samples)}
    phases = Timing(forward=ran.get("forward"), backward=ran.get("backward"), optimizer=ran.get("optimizer"))
    if not timed:
        return phases
    return replace(
        phases,
        step=Stat(tuple(step.length for step in timed)),
        iteration=Stat(tuple(step.whole for step in timed)),
        data_wait=Stat(tuple(step.wait for step in timed)),
    )
