"""A window of steps in somebody's training loop: one step counted as it runs, the others timed with light marks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace

import torch
from torch import nn

from .capture.clock import Clock, clock_for
from .capture.inputs import Run
from .capture.phases import PhaseMarks
from .capture.timing import Timer
from .caveats import Caveat, CountedLive, ShapesChanged, Window
from .errors import InputError, StateError
from .session import Recording
from .tree import Profile, Stat, Timing


PHASES = ("forward", "backward", "optimizer")


class StepWindow:
    """Profiles the steps of a window; `step()` ends each step of the loop, and `profile` is ready after the last.

    The first step of the window is counted while it runs, which slows it, so it is left out of the times. A window
    of one step is followed by one more step that is only timed.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        steps: Iterable[int] = range(2, 7),
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
        self.steps = tuple(steps)
        if not self.steps or list(self.steps) != list(range(self.steps[0], self.steps[-1] + 1)) or self.steps[0] < 0:
            raise InputError(f"steps must be consecutive and not negative, like range(2, 7), not {list(self.steps)}.")
        self.model = Run(model).plain_model
        self.optimizer = optimizer
        self.current = 0
        self._clock = clock or clock_for(Run(model).device)
        self._timed_steps = self.steps[1:] or (self.steps[0] + 1,)
        self._stack = ExitStack()
        self._recording: Recording | None = None
        self._counted: PhaseMarks | None = None
        self._marks: PhaseMarks | None = None
        self._timed: list[tuple[PhaseMarks, Timer]] = []
        self._waits: list[float] = []
        self._ends: list[float] = []

    def __enter__(self) -> StepWindow:
        """Begin with step 0."""
        self._begin()
        return self

    def __exit__(self, *problem: object) -> None:
        """Take everything off; a step that was under way is kept as far as it went."""
        self._end(whole=False)

    def step(self) -> None:
        """Say that a step of the loop is over."""
        self._end(whole=True)
        self.current += 1
        self._begin()

    @property
    def done(self) -> bool:
        """Whether the window lies behind."""
        return self.current > self._timed_steps[-1]

    def _begin(self) -> None:
        counting, timing = self.current == self.steps[0], self.current in self._timed_steps
        if not (counting or timing):
            return
        self._marks = PhaseMarks(self.model, self._clock)
        if counting:
            run = Run(self.model, train=True, optimizer=self.optimizer)
            self._recording = Recording(self.model, run=run, memory=True)
            self._stack.enter_context(self._recording)
            self._counted = self._marks
        else:
            timer = Timer(self.model, self._clock.now)
            self._stack.enter_context(timer.running())
            self._timed.append((self._marks, timer))
        self._stack.enter_context(self._marks.running())
        self._began = self._clock.mark()

    def _end(self, *, whole: bool) -> None:
        marks = self._marks
        if marks is None:
            return
        if self.current == self.steps[0] and self._recording is not None:
            self._recording.label(Run(self.model, optimizer=self.optimizer))
        ended = self._clock.mark()
        self._stack.close()
        self._marks = None
        if marks is self._counted:
            return
        self._clock.wait()
        if not whole or marks.bounds is None:
            self._timed.pop()
            return
        self._waits.append(self._clock.seconds(self._began, marks.bounds[0]))
        self._ends.append(self._clock.seconds(self._began, ended))

    @property
    def profile(self) -> Profile:
        """What the window held: costs of one step, times as medians over the timed steps."""
        if self._recording is None or self._counted is None:
            raise StateError(
                f"The loop ran {self.current} steps, and the window begins at step {self.steps[0]}: nothing was "
                f"profiled. Choose an earlier step, or call step() at the end of every step."
            )
        seen = self._recording.profile
        inputs = self._counted.first_inputs
        if inputs is not None:
            seen = self._recording.described(Run(self.model, inputs[0], inputs[1], optimizer=self.optimizer))
            calls = len(self._counted.signature)  # gradient accumulation: a step takes several batches
            seen = replace(
                seen,
                batch_size=seen.batch_size and seen.batch_size * calls,
                tokens=seen.tokens and seen.tokens * calls,
            )
        total = seen.root.total.total.flops * len(self.steps)
        doubts: list[Caveat] = [Window(self.steps[0], self.steps[-1], len(self._ends), total)]
        changed = tuple(
            step
            for step, (marks, _) in zip(self._timed_steps, self._timed, strict=False)
            if marks.signature != self._counted.signature
        )
        if changed:
            doubts.append(ShapesChanged(self.steps[0], changed))
        if not self._ends:
            doubts.append(CountedLive("the loop ended before a step could be timed by itself"))
        timing, rows = self._timing()
        result = replace(seen, timing=timing, caveats=(*seen.caveats, *doubts), step=self.steps[0])
        return self._recording.with_latencies(result, rows) if rows else result

    def _timing(self) -> tuple[Timing, dict[str, float]]:
        if not self._ends or self._counted is None:
            counted = self._counted
            if counted is None or counted.bounds is None:
                return Timing(), {}
            return _phases({name: Stat((counted.seconds(name),)) for name in PHASES}), {}
        marks = [marks for marks, _ in self._timed]
        ran = _phases({name: Stat(tuple(one.seconds(name) for one in marks)) for name in PHASES})
        steps = [self._clock.seconds(*one.bounds) for one in marks if one.bounds is not None]
        middle = sorted(range(len(marks)), key=lambda i: self._ends[i])[(len(marks) - 1) // 2]
        timing = replace(
            ran, step=Stat(tuple(steps)), iteration=Stat(tuple(self._ends)), data_wait=Stat(tuple(self._waits))
        )
        return timing, self._timed[middle][1].sums()


def _phases(stats: dict[str, Stat]) -> Timing:
    """The times of the phases that ran at all."""
    ran = {name: stat for name, stat in stats.items() if any(stat.samples)}
    return Timing(forward=ran.get("forward"), backward=ran.get("backward"), optimizer=ran.get("optimizer"))


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
    return StepWindow(model, optimizer, steps)
