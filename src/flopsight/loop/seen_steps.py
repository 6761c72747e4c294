"""What a window saw of its steps, and the profile that comes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..analysis.times import with_comm_times, with_times
from ..capture.model.sites import Site, Sites
from ..capture.time.clock import Clock
from ..capture.time.device_trace import DeviceTracing
from ..capture.time.kernels import with_children
from ..capture.time.latency import unplaced_work
from ..capture.time.loop_marks import PhaseMarks, each_model
from ..capture.time.module_marks import Timer
from ..results.caveats import (
    Caveat,
    CompiledWhole,
    CountedEager,
    CountedLive,
    CutOff,
    MovedWindow,
    NotCalled,
    NotSplit,
    ShapesChanged,
    Window,
)
from ..results.profile import Profile
from ..results.timings import Stat, Timing, middle
from .schedule import Schedule
from .step_watch import StepWatch


@dataclass
class SeenSteps:
    """The counted step, the timed ones, and the kernels of the traced one."""

    counted: StepWatch | None = None
    """From its begin on; a profile may be asked for while the step runs."""
    cut_off: bool = False
    """True if the loop ended within the counted step."""
    last: int = -1
    """The last step that was seen to its end."""
    timed: list[TimedStep] = field(default_factory=list)
    traced: DeviceTracing | None = None
    others: dict[int, PhaseMarks] = field(default_factory=dict)
    """Marks of every whole step after the counted one, by number."""

    def profile(self, schedule: Schedule, sites: Sites) -> Profile:
        """Costs of the counted step, with times as medians over the timed ones."""
        assert self.counted is not None
        assert self.counted.recording is not None
        seen, marks = self.counted.recording.profile, self.counted.marks
        compiled = sites.compiled or any(call.compiled for call in marks.calls)
        result = replace(
            seen,
            timing=timing_of(self.timed, marks),
            caveats=(*seen.caveats, *self._doubts(schedule, seen, marks, compiled=compiled)),
            batch_size=each_model(marks.calls, "samples"),
            tokens=each_model(marks.calls, "tokens"),
            step=schedule.counted,
        )
        if compiled:  # it ran as one piece, so only the root has a time; of several models no row has one
            whole = result.timing.forward if "" in sites.roots else None
            return replace(result, root=with_times(result.root, {"": whole.median} if whole is not None else {}))
        if self.traced is not None:
            return _with_kernels(result, self.traced)
        rows = self._rows(result.timing.forward)
        return replace(result, root=with_times(result.root, rows)) if rows else result

    def _rows(self, forward: Stat | None) -> dict[str, float]:
        """Seconds by module of the median step that was split, scaled so that they add up to the forward latency of the summary."""
        split = [(step, step.timer.sums()) for step in self.timed if step.timer is not None]
        if not split or forward is None:
            return {}
        step, rows = middle(split, lambda found: found[0].whole)
        root_alone = all(not call.site.path for call in step.marks.calls)
        own = rows.get("") if root_alone else step.marks.seconds("forward")
        return {path: forward.median * (seconds / own) for path, seconds in rows.items()} if own else rows

    def _doubts(self, schedule: Schedule, seen: Profile, counted: PhaseMarks, *, compiled: bool) -> Iterator[Caveat]:
        first = schedule.counted
        changed = tuple(number for number, marks in self.others.items() if work_of(marks) != work_of(counted))
        last = max(first, min(self.last, schedule.steps[-1]))  # the loop may have ended before the window
        total = None if changed else seen.root.total.total.flops * (last - first + 1)
        yield Window(first, last, len(self.timed), total)
        if first != schedule.asked:
            yield MovedWindow(schedule.asked, first, schedule.moves[0])
        if self.cut_off:
            yield CutOff(first)
        if changed:
            yield ShapesChanged(first, changed)
        if not (self.cut_off or counted.calls or any(marks.calls for marks in self.others.values())):
            yield NotCalled(first, max((first, *self.others)))
        elif not self.timed:
            yield CountedLive("the loop ended before a step could be timed by itself")
        elif self.traced is None and all(step.timer is None for step in self.timed):
            yield NotSplit()
        if self.traced is not None:
            yield from unplaced_work(self.traced)
        if compiled:
            yield from (CountedEager(first), CompiledWhole())


def _with_kernels(result: Profile, traced: DeviceTracing) -> Profile:
    forward, backward = (with_children(found, ()) for found in (traced.forward(), traced.backward()))
    root = with_times(result.root, forward, backward, streams=traced.streams())
    root = with_comm_times(root, traced.collectives)
    return replace(result, root=root, timing=traced.timing(result.timing, training=True))


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
