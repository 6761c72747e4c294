"""Doubts about steps of a user's own loop."""

from __future__ import annotations

from dataclasses import dataclass

from .kind import Caveat


@dataclass(frozen=True)
class CountedLive(Caveat):
    """The step that was timed also carried the counter."""

    why: str

    def __str__(self) -> str:
        return f"This step was counted while it was timed, so its latency is too high ({self.why})."


@dataclass(frozen=True)
class Window(Caveat):
    """What the figures of a window of steps are."""

    first: int
    last: int
    timed: int
    flops: int | None
    """Of the whole window; None if its steps were not alike."""

    def __str__(self) -> str:
        steps = f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}, both included"
        number = self.last - self.first + 1
        total = "" if self.flops is None else f": {self.flops:,} FLOPs in all, {self.flops // number:,} a step"
        costs = f"Window of {steps}{total}. Costs shown are those of one step, step {self.first}, counted as it ran"
        if not self.timed:
            return f"{costs}; no other step was timed."
        return (
            f"{costs}; times are medians over {self.timed} other step{'s' if self.timed != 1 else ''}, one step each."
        )


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class ShapesChanged(Caveat):
    """Steps of a window were not alike."""

    counted: int
    steps: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"The model was called with other shapes, or more or less often, in step{'s' if len(self.steps) > 1 else ''} "
            f"{', '.join(map(str, self.steps))} than in step {self.counted}, whose costs are shown: FLOPs per step change."
        )


@dataclass(frozen=True)
class MovedWindow(Caveat):
    """The step that was asked for was not like the others."""

    asked: int
    first: int
    why: str

    def __str__(self) -> str:
        return f"Step {self.first} is shown instead of step {self.asked}, which is not like the others: {self.why}."


@dataclass(frozen=True)
class CutOff(Caveat):
    """The loop ended within the step that was counted."""

    step: int

    def __str__(self) -> str:
        return f"The loop ended within step {self.step}: its costs are those until then."


@dataclass(frozen=True)
class CountedEager(Caveat):
    """Compiled code ran as plain Python in the step that was counted."""

    step: int

    def __str__(self) -> str:
        return (
            f"What torch.compile had compiled ran as plain Python in step {self.step}, so that its modules could be "
            f"counted: rounding and random numbers of that step may differ from a run without us."
        )
