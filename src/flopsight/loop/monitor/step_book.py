"""The step under way, and those before it until it is certain where they ended."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from ...capture.hooks.patches import Call
from ...errors import FlopsightError
from ..step_boundaries import Boundary, OptimizerCycle
from ..updates import SKIPPED
from .call_work import CallWork
from .intervals import Intervals
from .pauses import Pauses
from .step import Step
from .step_clock import StepClock

MOST_HELD = 16
"""Optimizer steps at the beginning of a loop that wait for its first `step()`."""


class HeldSteps:
    """Steps that are over, but whose end may still move.

    A step that an optimizer ended is held until the next one ends: a second optimizer of the same loop may turn out to
    belong to it. The first few are held longer: if the loop then calls `step()`, they were parts of its first step.
    """

    def __init__(self, intervals: Intervals) -> None:
        """A step goes to `intervals` when it is certain where it ended."""
        self._intervals = intervals
        self._held: list[Step] = []
        self._most = MOST_HELD

    def add(self, ended: Step, *, moved: bool) -> Step:
        """An optimizer has ended a step, or `moved` the end of the one before; gives the step that ends here."""
        held = self._held
        if moved and held:
            held[-1].extend(ended)
        else:
            if len(held) >= self._most:
                self._most = 1  # a loop that has not called step() by now does not
                self.hand_over()
            held.append(ended)
        self._intervals.step_ended(held)
        return held[-1]

    def add_at_hand(self, ended: Step, *, first: bool) -> Step:
        """The loop itself has ended a step; what was ended before its `first` are parts of that."""
        self._held.append(ended)
        if first:
            whole, *parts = self._held
            for part in parts:
                whole.extend(part)
            self._held = [whole]
        ended = self._held[-1]
        self._intervals.step_ended(self._held)
        self.hand_over()
        return ended

    def hand_over(self) -> None:
        """Nothing moves these any more."""
        for step in self._held:
            self._intervals.add(step)
        self._held.clear()


class StepBook:
    """Turns what a loop does into steps, which end with `step()` if the loop calls it, else with the optimizer."""

    def __init__(
        self,
        work: CallWork,
        clock: StepClock,
        optimizer: torch.optim.Optimizer | None,
        intervals: Intervals,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.work = work
        self.by_hand = False
        """True once the loop has called `step()`."""
        self.ended = 0
        """Steps that ended so far."""
        self.pauses = Pauses(clock, work.members)
        self.on_end: Callable[[bool], None] | None = None
        """Called when a step has ended, with whether it called a model."""
        self._clock, self._optimizer, self._on_failure = clock, optimizer, on_failure
        self._cycle, self._held = OptimizerCycle(), HeldSteps(intervals)
        self._step = Step(clock.moment(), clock.now())
        self._began: float | None = None
        """When the call or the backward under way began; None without one, and in a validation."""
        self._after_call: dict[Any, Callable[[], None]] = {}
        """Ends of steps within the call under way, by their optimizer: a model that trains itself ends its step with its call."""
        self._opens = False
        """True if the loop calls `step()` where its steps begin."""

    def call_begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> Call:
        """Look up the work of a call, or count it."""
        try:
            grad = torch.is_grad_enabled()
            step, validates = self.pauses.step_of_call(self._step, module, grad)
            self._step = step
            if validates:
                return call
            self._began = now = self._clock.now()
            if step.time.first_call is None:
                step.time.first_call = now
            if grad:
                step.calls.pending += 1
            return self.work.begin(step, module, grad, args, kwargs, call)
        except Exception as problem:
            self._on_failure(problem)
            return call

    def call_ends(self, output: Any) -> None:
        """Note when the call returned."""
        try:
            began = self._began
            if began is None:
                return
            step = self._step
            step.time.last_activity = now = self._clock.now()
            step.time.forward += now - began
            self._began = None
            self.work.end(step, output)
            if self._after_call:
                self._end_after_call()
        except Exception as problem:
            self._on_failure(problem)

    def call_raised(self) -> None:
        """The loop may catch it and go on."""
        try:
            if self._began is not None:
                self._began = None
                if self.work.failed(self._step):
                    self._step.calls.pending -= 1
                self._end_after_call()
        except Exception as problem:
            self._on_failure(problem)

    def called_elsewhere(self) -> None:
        """Another thread has called a model: the work of the step is not known."""
        self._step.failed = True

    def _end_after_call(self) -> None:
        waiting, self._after_call = self._after_call, {}
        for end in waiting.values():
            end()

    def saving_begins(self) -> None:
        """The loop writes a checkpoint."""
        self.pauses.saving_begins()

    def saving_ends(self) -> None:
        """It is written."""
        self.pauses.saving_ends(self._step)

    def backward_begins(self, tensors: Any, partial: bool, inputs: Any) -> None:
        """Note when a backward began."""
        try:
            if self.pauses.validating is not None:
                self.pauses.train_again(self._step)
            self._began = self._clock.now()
            self.work.backward_begins(self._step, tensors, partial, inputs)
        except Exception as problem:
            self._on_failure(problem)

    def backward_ends(self, raised: bool) -> None:
        """Note when it ended; the calls before it have their gradients."""
        try:
            step, began = self._step, self._began
            self._began = None
            if raised:
                step.fail()
            step.time.last_activity = now = self._clock.now()
            step.time.backward += 0.0 if began is None else now - began
            step.calls.pending = 0
            if self._after_call:
                self._end_after_call()
        except Exception as problem:
            self._on_failure(problem)

    def rebuilt(self) -> None:
        """A module was put into another one."""
        self.work.rebuilt()

    # -- where steps end

    def trains(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer is the given one, or updates the given models."""
        return self.work.members.updated_by(optimizer) if self._optimizer is None else optimizer is self._optimizer

    def updated(self, optimizer: torch.optim.Optimizer, unlike: str) -> None:
        """An optimizer has stepped: end the step, unless the loop ends its steps itself."""
        try:
            if self._began is not None:
                self._after_call[optimizer] = partial(self.updated, optimizer, unlike)
                return
            self._step.updates += 1
            given = self._optimizer
            if given is not None and optimizer is not given:
                return
            if unlike == SKIPPED:
                self._step.skipped = True
            boundary = Boundary.WITHIN
            if not self.by_hand and (given is not None or self.work.members.updated_by(optimizer)):
                boundary = self._cycle.stepped(optimizer)
            if boundary is Boundary.WITHIN:
                self._step.time.last_activity = self._clock.now()
                return
            step = self._held.add(self._end_step(), moved=boundary is Boundary.MOVED)
            if step.calls.number:
                self.pauses.before = step
        except Exception as problem:
            self._on_failure(problem)

    def engine_stepped(self, skipped: bool) -> None:
        """A DeepSpeed engine has stepped, which ends the step: its optimizer may step many times for it."""
        try:
            self._step.skipped |= skipped
            self.step()
        except Exception as problem:
            self._on_failure(problem)

    def step(self) -> None:
        """The loop says that a step is over."""
        if self._began is not None:
            self._after_call[None] = self.step
            return
        step = self._step
        busy = step.calls.number or step.calls.backwards or step.validations or step.updates or self.ended
        if not busy and not self.by_hand:
            self.by_hand = self._opens = True
            self.restart()
            return
        step = self._held.add_at_hand(self._end_step(), first=not self.by_hand)
        if step.calls.number:
            self.pauses.before = step
        self.by_hand = True

    def restart(self) -> None:
        """Let the step under way begin now, if it has not called a model."""
        if not self._step.calls.number:
            self._step = Step(self._clock.moment(), self._clock.now())
            self.pauses.forget()

    def _end_step(self) -> Step:
        step, clock = self._step, self._clock
        step.time.ended = now = clock.moment()
        self.pauses.step_ends(step)
        self.work.step_ends(step)
        self.ended += 1
        self._step = Step(now, clock.now() if clock.queues else now)
        if not (self.by_hand or self._cycle.settled):  # the loop may go on with what it called before this optimizer
            self._step.calls.carry(step.calls)
        if self.on_end is not None:
            self.on_end(bool(step.calls.number))
        return step

    def finish(self) -> None:
        """Hand over what is left; a step that has not ended is not a step."""
        if self._opens and self._step.updates and self._step.calls.backwards:
            self._held.add_at_hand(self._end_step(), first=False)
        self._held.hand_over()


def sentence(problem: Exception) -> str:
    """A problem of ours in one line."""
    kind = "" if isinstance(problem, FlopsightError) else f"{type(problem).__name__}: "
    return f"{kind}{problem}".splitlines()[0]
