"""A window of steps in somebody's training loop: one step counted as it runs, the others timed with light marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from operator import index
from typing import Any

import torch
from torch import nn

from ..analysis.times import with_times
from ..capture.model.run import Run
from ..capture.model.sites import Sites
from ..capture.time.clock import Clock, Mark, clock_for
from ..capture.time.device_trace import DeviceTracing
from ..capture.time.kernels import with_children
from ..capture.time.kineto import NoDeviceTrace
from ..capture.time.latency import unplaced
from ..capture.time.loop_marks import PhaseMarks, each_model
from ..capture.time.module_marks import Timer
from ..caveats import (
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
from ..config import parse_steps
from ..counting import Options, Recording
from ..errors import ConfigError, InputError, StateError
from ..timings import middle
from ..tree import Profile
from .timed_steps import TimedStep, timing_of, work_of

MOST_MOVES = 3
"""How often a step that is not like the others may be passed over; then that is how the steps of this loop are."""
VALIDATION = "it called a model in eval mode without gradients, as a validation does"


class StepWindow:
    """Profiles the steps of a window; `step()` ends each step of the loop, and `profile` is ready after the last.

    The first step of the window is counted while it runs, which slows it, so it is left out of the times. A window
    of one step is followed by one more step that is only timed. The step before the window is marked too: a step that
    calls a model as a validation does, more often than that one, is passed over, and the window ends later.
    """

    def __init__(
        self,
        model: nn.Module | Sites,
        optimizer: torch.optim.Optimizer | None = None,
        steps: Iterable[int] = range(2, 7),
        clock: Clock | None = None,
        current: int = 0,
        *,
        guarded: bool = False,
    ) -> None:
        """`Sites` without a model find the models when they are called; `current` is the step that the loop is at.

        A `guarded` window ends where a model or a backward raises: nobody has put that loop in a `with`.
        """
        if not isinstance(model, nn.Module | Sites):
            raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
        self.steps = checked_steps(steps)
        self.sites = model if isinstance(model, Sites) else Sites(Run(model).plain_model)
        self.optimizers = [] if optimizer is None else [optimizer]
        self.current = current
        self.asked = self.steps[0]
        self._timed_steps = self.steps[1:] or (self.steps[0] + 1,)
        self._given_clock = clock
        self._clock = clock or Clock()
        self._guarded = guarded
        self._paused: Mark | None = None
        self._stack = ExitStack()
        self._marks: PhaseMarks | None = None
        self._recording: Recording | None = None
        self._counted: PhaseMarks | None = None
        self._broken = False
        self._timer: Timer | None = None
        self._tracing: DeviceTracing | None = None
        self._traced: DeviceTracing | None = None
        self._timed: list[TimedStep] = []
        self._others: dict[int, PhaseMarks] = {}
        """The steps that were not counted, by number."""
        self._usual: int | None = None
        self._moves: list[str] = []

    def __enter__(self) -> StepWindow:
        """Begin with the current step."""
        self._begin()
        return self

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        """Take everything off."""
        if problem is not None and self._marks is self._counted and self._recording is not None:
            self._recording.ended_by(problem)
        self.close()

    def step(self, unlike: str = "") -> None:
        """Say that a step of the loop is over, and the next begins; `unlike` says what sets it apart, if anything does."""
        self.pause(unlike)
        self.resume()

    def pause(self, unlike: str = "") -> None:
        """Say that a step is over; what runs until `resume`, say an evaluation, belongs to none."""
        self._end(whole=True, unlike=unlike)
        self.current += 1
        self._paused = self._clock.mark() if self.current in self._timed_steps else None

    def resume(self, *, waited: bool = False) -> None:
        """Say that the next step begins; `waited` where the loop has only fetched its data since the last."""
        self._begin()
        if waited and self._paused is not None:
            self._began = self._paused

    def close(self) -> None:
        """Take everything off; a step that was under way is kept as far as it went."""
        self._end(whole=False)

    def abandon(self) -> None:
        """Take everything off and keep nothing of the step under way."""
        with suppress(NoDeviceTrace):  # then the step has no kernel times, and `profile` says so
            self._stack.close()
        self._marks = None

    @property
    def model(self) -> nn.Module:
        """What is profiled; where several models were found, a holder of them."""
        return self.sites.whole

    @property
    def done(self) -> bool:
        """Whether the window lies behind."""
        return self.current > self._timed_steps[-1]

    @property
    def counted(self) -> bool:
        """Whether a whole step has been counted."""
        return self._counted is not None and self._marks is not self._counted and not self._broken

    @property
    def cut_off(self) -> bool:
        """Whether the loop ended within the step that was counted, after it had called a model."""
        return self._broken and self._counted is not None and bool(self._counted.calls)

    # -- while the loop runs

    def _begin(self) -> None:
        counting, timing = self.current == self.steps[0], self.current in self._timed_steps
        if not (counting or timing or self.current == self.steps[0] - 1):
            return
        device = Run(self.model).device
        self._clock = self._given_clock or clock_for(device)
        self._marks = PhaseMarks(self.sites, self._clock, self.optimizers, self.close if self._guarded else None)
        self._timer = None
        if counting:
            self._counted = self._marks
            watched = Options(memory=True, in_loop=self.current > 0, optimizers=self.optimizers)
            self._recording = Recording(self.sites, watched)
            self._stack.enter_context(self._recording)
        elif timing and device.type == "cpu":  # on a device the host's marks would say when work is handed over
            self._timer = Timer(self.sites, self._clock.now)
            self._stack.enter_context(self._timer.running())
        elif timing and len(self._timed_steps) > 1 and self.current == self._timed_steps[-1]:
            self._trace(device)
        self._stack.enter_context(self._marks.running())
        self._began = self._clock.mark()

    def _trace(self, device: torch.device) -> None:
        """On a device, the last step of several is traced: its kernels give the time of every module, not of the step."""
        self._tracing = DeviceTracing(self.sites, device)
        try:
            self._stack.enter_context(self._tracing.running())
        except NoDeviceTrace:
            self._tracing = None

    def _end(self, *, whole: bool, unlike: str = "") -> None:
        marks, ended = self._marks, self._clock.mark()
        if marks is None:
            return
        counting = marks is self._counted
        if counting and self._recording is not None:
            self._recording.label(Run(self.model))
        self.abandon()
        if self.current < self.steps[0]:
            self._usual = marks.passive
            return
        if self._usual is not None and marks.passive > self._usual:
            unlike = unlike or VALIDATION
        if whole and unlike and len(self._moves) < MOST_MOVES:
            self._pass_over(unlike)
            return
        if counting:
            self._broken = not whole
            self._usual = marks.passive
            return
        if not whole:
            return
        self._others[self.current] = marks
        if self._tracing is not None:
            self._traced = self._tracing if self._tracing.found.busy else None
        elif marks.bounds is not None:
            self._clock.wait()
            wait, length = self._clock.seconds(self._began, marks.bounds[0]), self._clock.seconds(self._began, ended)
            self._timed.append(TimedStep(self.current, marks, self._timer, wait, length))

    def _pass_over(self, why: str) -> None:
        """Take the next step instead of this one."""
        self._moves.append(why)
        if self.current == self.steps[0]:
            self.steps = tuple(step + 1 for step in self.steps)
            self._timed_steps = tuple(step + 1 for step in self._timed_steps)
            self._counted = self._recording = None
        else:
            later = self._timed_steps[-1] + 1
            self._timed_steps = (*(step for step in self._timed_steps if step != self.current), later)

    # -- what came of it

    @property
    def profile(self) -> Profile:
        """What the window held: costs of one step, times as medians over the timed steps."""
        if self._recording is None or self._counted is None:
            raise StateError(
                f"The loop ran {self.current} steps, and the window begins at step {self.steps[0]}: nothing was "
                f"profiled. Choose an earlier step, or call step() at the end of every step."
            )
        seen = self._recording.profile
        counted = self._counted
        result = replace(
            seen,
            timing=timing_of(self._timed, counted),
            caveats=(*seen.caveats, *self._doubts(seen, counted)),
            batch_size=each_model(counted.calls, "samples"),
            tokens=each_model(counted.calls, "tokens"),
            step=self.steps[0],
        )
        if self._compiled:  # as one piece, so one row; of several models the rows are not known
            whole = result.timing.forward if "" in self.sites.roots else None
            return replace(result, root=with_times(result.root, {"": whole.median} if whole is not None else {}))
        if self._traced is not None:
            return self._with_kernels(result, self._traced)
        timer = middle(self._timed, lambda step: step.whole).timer if self._timed else None
        return result if timer is None else replace(result, root=with_times(result.root, timer.sums()))

    @property
    def _compiled(self) -> bool:
        calls = self._counted.calls if self._counted is not None else ()
        return self.sites.compiled or any(call.compiled for call in calls)

    def _with_kernels(self, result: Profile, traced: DeviceTracing) -> Profile:
        forward, backward = (with_children(found, ()) for found in (traced.forward(), traced.backward()))
        root = with_times(result.root, forward, backward, streams=traced.streams())
        return replace(result, root=root, timing=traced.timing(result.timing, training=True))

    def _doubts(self, seen: Profile, counted: PhaseMarks) -> Iterator[Caveat]:
        first = self.steps[0]
        changed = tuple(number for number, marks in self._others.items() if work_of(marks) != work_of(counted))
        total = None if changed else seen.root.total.total.flops * len(self.steps)
        yield Window(first, self.steps[-1], len(self._timed), total)
        if first != self.asked:
            yield MovedWindow(self.asked, first, self._moves[0])
        if self._broken:
            yield CutOff(first)
        if changed:
            yield ShapesChanged(first, changed)
        if not (self._broken or counted.calls or any(marks.calls for marks in self._others.values())):
            yield NotCalled(first, max((first, *self._others)))
        elif not self._timed:
            yield CountedLive("the loop ended before a step could be timed by itself")
        elif self._traced is None and all(step.timer is None for step in self._timed):
            yield NotSplit()
        if self._traced is not None:
            yield from unplaced(self._traced)
        if self._compiled:
            yield CountedEager(first)
            yield CompiledWhole()


def step_profiler(
    model: nn.Module, optimizer: torch.optim.Optimizer | None = None, steps: Iterable[int] = range(2, 7)
) -> StepWindow:
    """Profile a window of steps of your own loop.

    >>> import torch, flopsight
    >>> model = torch.nn.Linear(8, 2)
    >>> with flopsight.step_profiler(model, steps=range(1, 3)) as prof:
    ...     for _ in range(4):
    ...         model(torch.ones(4, 8)).sum().backward()
    ...         prof.step()
    >>> prof.profile.macs
    64
    """
    check_optimizer(optimizer)
    return StepWindow(model, optimizer, steps)


def checked_steps(steps: Any) -> tuple[int, ...]:
    """The numbers of a window's steps; refuses what is none."""
    try:
        found = tuple(map(index, steps))
    except TypeError:
        found = ()
    if not found or found[0] < 0 or found != tuple(range(found[0], found[0] + len(found))):
        raise InputError(
            f"steps must be whole numbers, consecutive and not negative, like range(2, 7) or [5], "
            f"not {found or steps!r}.{_perhaps(steps)}"
        )
    return found


def _perhaps(steps: Any) -> str:
    """What a first and a last step, as a settings file has them, would be here."""
    try:
        first, last = parse_steps(steps)
    except ConfigError:
        return ""
    return f" Did you mean steps=range({first}, {last + 1})?"


def check_optimizer(optimizer: Any) -> None:
    """Refuse what takes no steps; a framework's optimizer need not be one of torch's."""
    if optimizer is None or (hasattr(optimizer, "step") and hasattr(optimizer, "param_groups")):
        return
    meant = ""
    if isinstance(optimizer, range | list | tuple):
        with suppress(InputError):
            checked_steps(optimizer)
            meant = f" Did you mean steps={optimizer!r}?"
    raise InputError(f"optimizer must be a torch.optim.Optimizer, not {type(optimizer).__name__}.{meant}")
