"""What a loop does between its steps: validations, and checkpoints that it writes."""

from __future__ import annotations

from torch import nn

from .members import Members
from .step import Step
from .step_clock import Moment, StepClock


class Pauses:
    """Tells validations from steps, and takes the time of both validations and checkpoints out of them."""

    def __init__(self, clock: StepClock, members: Members) -> None:
        self.number = 0
        """How often the loop did something else than its steps, or we counted."""
        self.before: Step | None = None
        """The last step that called a model."""
        self._clock, self._members = clock, members
        self.validating: Moment | None = None
        """When the validation under way began."""
        self._undecided: tuple[Step, Moment | None] | None = None
        """The step and the validation under way as they were before calls that may belong to either."""
        self._saving: tuple[Moment, float] | None = None

    def step_of_call(self, step: Step, module: nn.Module, grad: bool) -> tuple[Step, bool]:
        """At a call of a model: the step under way, and whether the call is a validation."""
        if not grad and self._validates(step, module):
            return self._validate(step), True
        if self._undecided is not None and grad:
            self._undecided = None  # the loop trains, so these calls were a part of it
        if self.validating is not None:
            self.train_again(step)
        calls = step.calls
        if grad and not module.training:
            calls.evaluated += 1
        elif calls.evaluated and calls.number == calls.evaluated and not calls.backwards:
            step = self._evaluated(step)
        return step, False

    def _validates(self, step: Step, module: nn.Module) -> bool:
        """Whether a call without gradients is a validation: between steps, of a model that the loop trains."""
        if step.calls.pending:
            return False
        step.calls.passive |= module.training
        if not self._members.trains(module):  # a teacher: what the loop does next tells what it was called for
            if self._undecided is None:
                self._undecided = step.copy(), self.validating
            return False
        return not module.training or (self.before is not None and not self.before.calls.passive)

    def _validate(self, step: Step) -> Step:
        """A call of a validation, to which calls of other models before it belong too."""
        if self._undecided is not None:
            called = step.calls.number
            (step, self.validating), self._undecided = self._undecided, None
            step.validations += called - step.calls.number
        if self.validating is None:
            self.validating = self._idle_since(step)
        step.validations += 1
        return step

    def _evaluated(self, step: Step) -> Step:
        """A new step: what the loop called in eval mode before it trains, with gradients and no backward, is a validation."""
        new = Step(step.time.began, step.time.host_began)
        new.validations, new.updates = step.validations + step.calls.number, step.updates
        new.time.validated = ((step.time.began, self._clock.moment()),)
        self.number += 1
        return new

    def _idle_since(self, step: Step) -> Moment:
        """When the loop last trained: where the step began, or where its last part ended."""
        if not step.calls.number and not step.time.saved:
            return step.time.began
        return self._clock.moment() if self._clock.queues else step.time.last_activity

    def train_again(self, step: Step) -> None:
        """The loop trains: what it did since the validation began, metrics and the like, belongs to that."""
        time = step.time
        time.validated += ((self.validating, self._clock.moment()),)
        self.validating = None
        self.number += 1
        if time.first_call is None:
            time.host_began = self._clock.now()

    def forget(self) -> None:
        """What the loop did since its last step is in no step and no validation."""
        self.validating = None

    def step_ends(self, step: Step) -> None:
        """The step is over."""
        if self.validating is not None:
            self.train_again(step)
        self._undecided = None
        if step.slowed or step.time.counted:
            self.number += 1

    def saving_begins(self) -> None:
        """The loop writes a checkpoint, which is in no step; one within a validation is a part of that."""
        if self.validating is None:
            self._saving = (self._clock.moment(), self._clock.now())

    def saving_ends(self, step: Step) -> None:
        """It is written."""
        if self._saving is not None:
            time, (begin, host_began), now = step.time, self._saving, self._clock.now()
            self._saving = None
            time.saved += ((begin, self._clock.moment()),)
            time.last_activity = now
            self.number += 1
            if time.first_call is None:
                time.host_began += now - host_began
