"""The step under way, and the one before it until it is certain where that ended."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
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
from .step import Step
from .step_clock import Moment, StepClock

MOST_HELD = 16
"""Optimizer steps at the beginning of a loop that wait for its first `step()`."""


class StepBook:
    """Turns what a loop does into steps, and hands each over when it is over.

    Steps end with `step()` if the loop calls it, else with the optimizer. A step that an optimizer ended is held until
    the next one ends: a second optimizer of the same loop may turn out to belong to it. The first few are held longer:
    if the loop then calls `step()`, they were parts of its first step.
    """

    def __init__(
        self,
        work: CallWork,
        clock: StepClock,
        optimizer: torch.optim.Optimizer | None,
        intervals: Intervals,
        on_failure: Callable[[Exception], None],
    ) -> None:
        """A step goes to `intervals` when it is certain where it ended."""
        self.work = work
        self.clock = clock
        self.by_hand = False
        """True once the loop has called `step()`."""
        self.ended = self.pauses = 0
        """Steps that ended so far, and how often the loop did something else: a validation, or our counting."""
        self._optimizer = optimizer
        self._intervals, self._on_failure = intervals, on_failure
        self.on_end: Callable[[bool], None] | None = None
        """Called when a step has ended, with whether it called a model."""
        self._cycle = OptimizerCycle()
        self._step = Step(clock.moment(), clock.now())
        self._held: list[Step] = []
        """Steps that ended with an optimizer, and whose end may still move."""
        self._most_held = MOST_HELD
        self._validating: Moment | None = None
        """When the validation under way began."""
        self._saving: tuple[Moment, float] | None = None
        self._call_began: float | None = None
        self._before: Step | None = None
        """The last step that called a model."""
        self._undecided: tuple[Step, Moment | None] | None = None
        """The step and the validation under way as they were before calls that may belong to either."""
        self._backward_began = 0.0
        self._updates = 0
        """Of any optimizer, since the last step ended."""
        self._after_call: dict[Any, Callable[[], None]] = {}
        """Ends of steps within the call under way, by their optimizer: a model that trains itself ends its step with its call."""
        self._opens = False
        """True if the loop calls `step()` where its steps begin."""

    # -- calls of the model

    def call_begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> Call:
        """Look up the work of a call, or count it."""
        try:
            step = self._step
            grad = torch.is_grad_enabled()
            if not grad and self._validates(step, module):
                self._validate()
                return call
            if self._undecided is not None and grad:
                self._undecided = None  # the loop trains, so these calls were a part of it
            if self._validating is not None:
                self._end_validation(step)
            if grad and not module.training:
                step.evaluated += 1
            elif step.evaluated and step.calls == step.evaluated and not step.backwards:
                step = self._evaluated(step)
            self._call_began = now = self.clock.now()
            if step.first_call is None:
                step.first_call = now
            if grad:
                step.pending += 1
            return self.work.begin(step, module, args, kwargs, call)
        except Exception as problem:
            self._on_failure(problem)
            return call

    def call_ends(self, output: Any) -> None:
        """Note when the call returned."""
        try:
            if self._call_began is None:
                return
            step = self._step
            step.last_activity = now = self.clock.now()
            step.forward += now - self._call_began
            self._call_began = None
            self.work.end(step, output)
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

    def call_raised(self) -> None:
        """The loop may catch it and go on."""
        try:
            if self._call_began is not None:
                self._call_began = None
                if self.work.failed(self._step):
                    self._step.pending -= 1
                self._end_after_call()
        except Exception as problem:
            self._on_failure(problem)

    def _validates(self, step: Step, module: nn.Module) -> bool:
        """Whether a call without gradients is a validation: between steps, of a model that the loop trains."""
        if step.pending:
            return False
        step.passive |= module.training
        if not self.work.members.trains(module):  # a teacher: what the loop does next tells what it was called for
            if self._undecided is None:
                self._undecided = copy(step), self._validating
            return False
        return not module.training or (self._before is not None and not self._before.passive)

    def _validate(self) -> None:
        """A call of a validation, to which calls of other models before it belong too."""
        if self._undecided is not None:
            called = self._step.calls
            (self._step, self._validating), self._undecided = self._undecided, None
            self._step.validations += called - self._step.calls
        if self._validating is None:
            self._validating = self._idle_since(self._step)
        self._step.validations += 1

    def _evaluated(self, step: Step) -> Step:
        """A new step: what the loop called in eval mode before it trains, with gradients and no backward, is a validation."""
        self._step = Step(step.began, step.host_began)
        self._step.validations = step.validations + step.calls
        self._step.validation_spans = ((step.began, self.clock.moment()),)
        self.pauses += 1
        return self._step

    def _idle_since(self, step: Step) -> Moment:
        """When the loop last trained: where the step began, or where its last part ended."""
        if not step.calls and not step.saving_spans:
            return step.began
        return self.clock.moment() if self.clock.queues else step.last_activity

    def _end_validation(self, step: Step) -> None:
        """The loop trains again: what it did since the validation began, metrics and the like, belongs to that."""
        step.validation_spans += ((self._validating, self.clock.moment()),)
        self._validating = None
        self.pauses += 1
        if step.first_call is None:
            step.host_began = self.clock.now()

    # -- checkpoints

    def saving_begins(self) -> None:
        """The loop writes a checkpoint, which is in no step; one within a validation is a part of that."""
        if self._validating is None:
            self._saving = (self.clock.moment(), self.clock.now())

    def saving_ends(self) -> None:
        """It is written."""
        if self._saving is not None:
            step, (begin, host_began), now = self._step, self._saving, self.clock.now()
            self._saving = None
            step.saving_spans += ((begin, self.clock.moment()),)
            step.last_activity = now
            self.pauses += 1
            if step.first_call is None:
                step.host_began += now - host_began

    # -- backward

    def backward_begins(self, tensors: Any, partial: bool, inputs: Any) -> None:
        """Note when a backward began."""
        try:
            if self._validating is not None:
                self._end_validation(self._step)
            self._backward_began = self.clock.now()
            self.work.backward_begins(self._step, tensors, partial, inputs)
        except Exception as problem:
            self._on_failure(problem)

    def backward_ends(self, raised: bool) -> None:
        """Note when it ended; the calls before it have their gradients."""
        try:
            step = self._step
            if raised:
                step.fail()
            step.last_activity = now = self.clock.now()
            step.backward += now - self._backward_began
            step.pending = 0
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
            if self._call_began is not None:
                self._after_call[optimizer] = partial(self.updated, optimizer, unlike)
                return
            self._updates += 1
            given = self._optimizer
            if given is not None and optimizer is not given:
                return
            if unlike == SKIPPED:
                self._step.skipped = True
            boundary = Boundary.WITHIN
            if not self.by_hand and (given is not None or self.work.members.updated_by(optimizer)):
                boundary = self._cycle.stepped(optimizer)
            if boundary is Boundary.WITHIN:
                self._step.last_activity = self.clock.now()
            else:
                self._close(boundary)
        except Exception as problem:
            self._on_failure(problem)

    def _close(self, boundary: Boundary) -> None:
        ended = self._end_step()
        if boundary is Boundary.MOVED and self._held:
            self._before = self._held[-1]
            self._before.extend(ended)
            self._intervals.step_ended(self._held)
            return
        if len(self._held) >= self._most_held:
            self._most_held = 1  # a loop that has not called step() by now does not
            self._hand_over()
        self._held.append(ended)
        self._intervals.step_ended(self._held)

    def engine_stepped(self, skipped: bool) -> None:
        """A DeepSpeed engine has stepped, which ends the step: its optimizer may step many times for it."""
        try:
            self._step.skipped |= skipped
            self.step()
        except Exception as problem:
            self._on_failure(problem)

    def step(self) -> None:
        """The loop says that a step is over."""
        if self._call_began is not None:
            self._after_call[None] = self.step
            return
        step = self._step
        busy = step.calls or step.backwards or step.validations or self._updates or self.ended
        if not busy and not self.by_hand:
            self.by_hand = self._opens = True
            self.restart()
            return
        ended = self._end_step()
        if not self.by_hand and self._held:  # the optimizer's steps up to here are the first of the loop's own
            first, *others = self._held
            for later in (*others, ended):
                first.extend(later)
            self._held = [first]
            self._before = first
        else:
            self._held.append(ended)
        self.by_hand = True
        self._intervals.step_ended(self._held)
        self._hand_over()

    def restart(self) -> None:
        """Let the step under way begin now, if it has not called a model."""
        if not self._step.calls:
            self._step = Step(self.clock.moment(), self.clock.now())
            self._validating = None

    def _end_step(self) -> Step:
        step, clock = self._step, self.clock
        step.ended = now = clock.moment()
        if self._validating is not None:
            self._end_validation(step)
        self.work.step_ends(step)
        if step.calls:
            self._before = step
        self._undecided = None
        self._updates = 0
        self.ended += 1
        if step.slowed or step.counting_spans:
            self.pauses += 1
        self._step = Step(now, clock.now() if clock.queues else now)
        if not (self.by_hand or self._cycle.settled):  # the loop may go on with what it called before this optimizer
            self._step.carry(step)
        if self.on_end is not None:
            self.on_end(bool(step.calls))
        return step

    def _hand_over(self) -> None:
        held, self._held = self._held, []
        for step in held:
            self._intervals.add(step)

    def finish(self) -> None:
        """Hand over what is left; a step that has not ended is not a step."""
        if self._opens and self._updates and self._step.backwards:
            self._held.append(self._end_step())
        self._hand_over()


def sentence(problem: Exception) -> str:
    """A problem of ours in one line."""
    kind = "" if isinstance(problem, FlopsightError) else f"{type(problem).__name__}: "
    return f"{kind}{problem}".splitlines()[0]
