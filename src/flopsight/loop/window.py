"""A window of steps in the user's own loop: one step counted as it runs, the others timed with light marks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from ..capture.model.model_run import ModelRun
from ..capture.model.sites import Sites
from ..capture.time.clock import Clock, Mark, clock_for
from ..errors import InputError, StateError
from ..results.profile import Profile
from .schedule import Role, Schedule, checked_steps
from .seen_steps import SeenSteps, TimedStep
from .step_watch import StepWatch

VALIDATION = "it called a model in eval mode without gradients, as a validation does"

SPLIT_EVERY = 4
"""One timed step of so many is split by module: few enough that the medians are those of the other steps."""


class StepWindow:
    """Profiles the steps of a window; `step()` ends each step of the loop, and `profile` is ready after the last.

    A step that calls a model as a validation does, more often than the step before the window, is passed over, and
    the window ends later.
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

        A `guarded` window ends when a model or a backward raises, for loops that are not inside its `with`.
        """
        if not isinstance(model, nn.Module | Sites):
            raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
        self.schedule = Schedule(steps)
        self.sites = model if isinstance(model, Sites) else Sites(ModelRun(model).plain_model)
        self.optimizers = [] if optimizer is None else [optimizer]
        self.current = current
        self.seen = SeenSteps()
        self._given_clock = clock
        self._clock = clock or Clock()
        self._guarded = guarded
        self._paused: Mark | None = None
        self._usual: int | None = None
        """Validation calls in the last step that was not passed over."""
        self._step: StepWatch | None = None
        """The step under way, if it has a role."""

    def __enter__(self) -> StepWindow:
        self._begin()
        return self

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        if problem is not None and self._step is not None and self._step.recording is not None:
            self._step.recording.ended_by(problem)
        self.close()

    def step(self, unlike: str = "") -> None:
        """Say that a step of the loop is over, and the next begins; `unlike` says what sets it apart, if anything does."""
        self.pause(unlike)
        self.resume()

    def pause(self, unlike: str = "") -> None:
        """Say that a step is over; what runs until `resume`, say an evaluation, belongs to no step."""
        self._end(whole=True, unlike=unlike)
        self.current += 1
        timed = self.schedule.role(self.current) in (Role.TIME, Role.TRACE)
        self._paused = self._clock.mark() if timed else None

    def resume(self, *, waited: bool = False) -> None:
        """Say that the next step begins; `waited` if the loop has only fetched its data since the last."""
        self._begin()
        if waited and self._paused is not None and self._step is not None:
            self._step.began = self._paused

    def close(self) -> None:
        """Stop watching; a step that was under way is kept as far as it went."""
        self._end(whole=False)

    def abandon(self) -> None:
        """Stop watching and keep nothing of the step under way."""
        if self._step is not None:
            self._step.detach()
        self._step = None

    @property
    def steps(self) -> tuple[int, ...]:
        """The numbers of the steps in the window."""
        return self.schedule.steps

    @property
    def model(self) -> nn.Module:
        """The model that is profiled; if several models were found, a holder of them."""
        return self.sites.whole

    @property
    def done(self) -> bool:
        """True after the last step of the window."""
        return self.schedule.is_over(self.current)

    @property
    def counted(self) -> bool:
        """True when a whole step has been counted."""
        counted = self.seen.counted
        return counted is not None and counted is not self._step and not self.seen.cut_off

    @property
    def cut_off(self) -> bool:
        """True if the loop ended within the step that was counted, after it had called a model."""
        return self.seen.cut_off and self.seen.counted is not None and bool(self.seen.counted.marks.calls)

    @property
    def profile(self) -> Profile:
        """Costs of one step of the window, with times as medians over its timed steps."""
        if self.seen.counted is None:
            raise StateError(self._why_nothing)
        return self.seen.profile(self.schedule, self.sites)

    @property
    def _why_nothing(self) -> str:
        if self.current > self.steps[0]:
            return (
                f"Step {self.steps[0]} began outside the window, so nothing was profiled. Put the loop inside "
                f"`with flopsight.step_profiler(...) as prof:`."
            )
        return (
            f"The loop ran {self.current} steps, and the window begins at step {self.steps[0]}: nothing was "
            f"profiled. Choose an earlier step, or call step() at the end of every step."
        )

    def _begin(self) -> None:
        role = self.schedule.role(self.current)
        if role is Role.NONE:
            return
        device = ModelRun(self.model).device
        self._clock = self._given_clock or clock_for(device)
        on_failure = self.close if self._guarded else None
        self._step = StepWatch(role, self.sites, self._clock, self.optimizers, on_failure)
        if role is Role.COUNT:
            self.seen.counted = self._step
        split = len(self.seen.timed) % SPLIT_EVERY == 0
        self._step.begin(device, first=self.current == 0, split=split)

    def _end(self, *, whole: bool, unlike: str = "") -> None:
        step = self._step
        if step is None:
            return
        ended = self._clock.mark()
        self._step = None
        step.end()
        if whole:
            self.seen.last = self.current
        if whole and self._pass_over(step, unlike):
            return
        match step.role:
            case Role.LEAD:
                self._usual = step.marks.passive
            case Role.COUNT:
                self.seen.cut_off = not whole
                self._usual = step.marks.passive
            case Role.TIME if whole:
                self.seen.others[self.current] = step.marks
                self._keep_times(step, ended)
            case Role.TRACE if whole and step.tracing is not None:
                self.seen.others[self.current] = step.marks
                self.seen.traced = step.tracing if step.tracing.found.busy else None

    def _pass_over(self, step: StepWatch, unlike: str) -> bool:
        """Let the next step take the place of one that is unlike the others; True if that was done."""
        if step.role is Role.LEAD:
            return False
        if self._usual is not None and step.marks.passive > self._usual:
            unlike = unlike or VALIDATION
        if not unlike or not self.schedule.pass_over(self.current, unlike):
            return False
        if step is self.seen.counted:
            self.seen.counted = None
        return True

    def _keep_times(self, step: StepWatch, ended: Mark) -> None:
        bounds = step.marks.bounds
        if bounds is None:
            return
        self._clock.wait()
        wait, whole = (self._clock.seconds(step.began, mark) for mark in (bounds[0], ended))
        self.seen.timed.append(TimedStep(self.current, step.marks, step.timer, wait, whole))


def step_profiler(
    model: nn.Module, optimizer: torch.optim.Optimizer | None = None, steps: Iterable[int] = range(2, 7)
) -> StepWindow:
    """Profile a window of steps of your own loop.

    `model` is what is trained, and `optimizer` what steps it, whose time is then known too. A step ends with `prof.step()`.
    `steps` are consecutive numbers, counted from 0: one of them is counted, the others are timed.

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
