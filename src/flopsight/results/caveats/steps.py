"""Doubts about steps of a user's own loop."""

from __future__ import annotations

from .kind import Caveat


class CountedLive(Caveat):
    """The step that was timed also carried the counter."""

    why: str
    says = "This step was counted while it was timed, so its latency is too high ({why})."


class Window(Caveat):
    """What the figures of a window of steps are."""

    first: int
    last: int
    timed: int
    flops: int | None
    """Of the whole window; None if its steps were not alike."""

    def __str__(self) -> str:
        number = self.last - self.first + 1
        total = "" if self.flops is None else f": {self.flops:,} FLOPs in all, {self.flops // number:,} a step"
        window = f"Window of steps {self.first} to {self.last}, both included{total}. " if number > 1 else ""
        times = (
            f"times are medians over {self.timed} other steps" if self.timed > 1 else "times are those of another step"
        )
        costs = f"Costs are those of step {self.first}, counted as it ran"
        return f"{window}{costs}; {times if self.timed else 'no other step was timed'}."


class NotCalled(Caveat):
    """The loop ran through the window without a call of the model."""

    first: int
    last: int

    def __str__(self) -> str:
        steps = f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}"
        return (
            f"No call of the model was seen in {steps}, so it has no time, and costs are those of what else ran. "
            f"Perhaps the loop calls another object than the one that was handed over, or calls it on another thread."
        )


class ShapesChanged(Caveat):
    """Steps of a window were not alike."""

    counted: int
    steps: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"The model was called with other shapes, or more or less often, in step{'s' if len(self.steps) > 1 else ''} "
            f"{', '.join(map(str, self.steps))} than in step {self.counted}, whose costs are shown: FLOPs per step change."
        )


class MovedWindow(Caveat):
    """The step that was asked for was not like the others."""

    asked: int
    first: int
    why: str
    says = "Step {first} is shown instead of step {asked}, which is not like the others: {why}."


class CutOff(Caveat):
    """The loop ended within the step that was counted."""

    step: int
    says = "The loop ended within step {step}: its costs are those until then."


class CountedEager(Caveat):
    """Compiled code ran as plain Python in the step that was counted."""

    step: int
    says = (
        "What torch.compile had compiled ran as plain Python in step {step}, so that its modules could be "
        "counted: rounding and random numbers of that step may differ from a run without us."
    )
