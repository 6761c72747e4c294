"""Every doubt that a profile can carry: a closed list, each a value with its measurement and its advice."""

from __future__ import annotations

from dataclasses import dataclass

from .records import OUTSIDE
from .units import size


@dataclass(frozen=True)
class Caveat:
    """A doubt; `str()` is one or two sentences for the user."""


@dataclass(frozen=True)
class UnknownOps(Caveat):
    """Some ops have no formula, so the totals lack them."""

    names: tuple[str, ...]
    calls: int

    def __str__(self) -> str:
        shown = ", ".join(self.names[:5]) + (", ..." if len(self.names) > 5 else "")
        return (
            f"{self.calls} op calls are not counted: {shown}. "
            f'Say what they cost with @flopsight.formula("{"".join(self.names[:1])}").'
        )


@dataclass(frozen=True)
class BadFormula(Caveat):
    """A user's formula raised or returned something that is not a cost."""

    op: str
    why: str

    def __str__(self) -> str:
        return f"{self.op} is not counted: {self.why}."


@dataclass(frozen=True)
class DirectForward(Caveat):
    """Modules whose `.forward()` was called by hand."""

    modules: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f".forward() was called directly on {', '.join(self.modules)}: their work is placed by the parameters it "
            f"touched. Call the module itself for exact rows."
        )


@dataclass(frozen=True)
class OtherThreads(Caveat):
    """Modules that the model called on threads of its own only."""

    modules: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"Not counted: {', '.join(self.modules)} ran on other threads than the one that called the model, and only "
            f"that one is watched. Call them on one thread to count them."
        )


@dataclass(frozen=True)
class Scripted(Caveat):
    """TorchScript modules, whose submodules run inside an interpreter."""

    modules: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(name or "the model" for name in self.modules)
        return f"TorchScript runs the submodules of {names} by itself: their work is all in that row."


@dataclass(frozen=True)
class NoTwin(Caveat):
    """A count on meta was asked for, but the model cannot have a meta twin."""

    why: str

    def __str__(self) -> str:
        return f"Counted on real tensors, because the model has no meta twin: {self.why}."


@dataclass(frozen=True)
class OtherPath(Caveat):
    """The run that was counted did not call the modules that the timed one called."""

    module: str
    timed: int
    """Calls of the module in the timed run."""
    counted: int
    modules: int
    """How many modules differ."""

    def __str__(self) -> str:
        """Where, and what helps."""
        more = f" ({self.modules - 1} more modules differ)" if self.modules > 1 else ""
        return (
            f"Counts may be of another path through the model: the run that was counted called "
            f"{self.module or 'the model'} {self.counted} times, the timed one {self.timed} times{more}. "
            f"flopsight.count runs the model on its data."
        )


@dataclass(frozen=True)
class PutBack(Caveat):
    """A training step was undone: how many bytes were copied for that."""

    copied: int
    updated: bool

    def __str__(self) -> str:
        what = "parameters, optimizer state, buffers and inputs" if self.updated else "buffers and inputs"
        return (
            f"The step was undone: {size(self.copied)} of {what} were copied first and put back afterwards. "
            f'Where there is no room for that, count on a copy without data: on="meta", or --meta.'
        )


@dataclass(frozen=True)
class Raised(Caveat):
    """The run ended with an exception."""

    problem: str
    """The exception's class."""
    module: str | None = None
    """Where it was raised, if that is known."""
    phase: str = ""
    asked: str = ""
    """The allocation that failed, from torch's out-of-memory message."""

    def __str__(self) -> str:
        where = {None: "", "": f" in the model itself, {self.phase}", OUTSIDE: f" outside every module, {self.phase}"}
        place = where.get(self.module, f" in {self.module}, {self.phase}")
        asked = f", which asked for {self.asked}" if self.asked else ""
        return f"{self.problem} was raised{place}{asked}: all figures are those until then."


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
    """Of the whole window; None where its steps were not alike."""

    def __str__(self) -> str:
        steps = f"step {self.first}" if self.first == self.last else f"steps {self.first} to {self.last}, both included"
        number = self.last - self.first + 1
        total = "" if self.flops is None else f": {self.flops:,} FLOPs in all, {self.flops // number:,} a step"
        return (
            f"Window of {steps}{total}. Costs shown are those of one step, step {self.first}, "
            f"counted as it ran; times are medians over {self.timed} other step{'s' if self.timed != 1 else ''}, one step each."
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
            f"The model was called with other shapes in step{'s' if len(self.steps) > 1 else ''} "
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


@dataclass(frozen=True)
class TwinWithoutAutocast(Caveat):
    """The step ran under autocast, which does not reach the meta device where it was counted."""

    def __str__(self) -> str:
        return "Counted without autocast: MACs and FLOPs are exact, bytes and saved activations are those of full precision."


@dataclass(frozen=True)
class Assumed(Caveat):
    """A value that decides how much work is done was not known and had to be assumed."""

    what: str
    where: str = ""
    """The line of the model's code that asked for it."""

    def __str__(self) -> str:
        return f"Assumed: {self.what}{f' ({self.where})' if self.where else ''}."


@dataclass(frozen=True)
class Distorted(Caveat):
    """Runs with marks, which give the times by module, did not take the time of plain runs."""

    ratio: float
    scaled: bool = False
    """True if the times by module were scaled to the plain runs."""

    def __str__(self) -> str:
        done = "they are scaled to the plain one" if self.scaled else "trust their shares"
        return f"Per-module times come from a pass {self.ratio:.2f}x as long as the plain one; {done}."


@dataclass(frozen=True)
class PhasesApart(Caveat):
    """Forward, backward and optimizer together took longer than the step, which was timed as one piece."""

    ratio: float

    def __str__(self) -> str:
        return (
            f"Forward, backward and optimizer latency add up to {self.ratio:.2f}x the step latency: the phases were "
            f"timed with a wait for the device after each, the step as one piece. The step latency is that of a loop."
        )


@dataclass(frozen=True)
class UnsteadyModules(Caveat):
    """Some modules took a different share of the forward from run to run."""

    modules: tuple[str, ...]
    spreads: tuple[float, ...]
    """Distance between the quartiles of a module's share, relative to its median."""

    def __str__(self) -> str:
        named = ", ".join(f"{path} {spread:.0%}" for path, spread in zip(self.modules, self.spreads, strict=False))
        return f"The times of some modules vary from run to run (quartiles apart): {named}. Raise repeats."


@dataclass(frozen=True)
class HeldBack(Caveat):
    """Module times are from events, because kernel times could not be had."""

    why: str

    def __str__(self) -> str:
        return f"Module times are from events in a stream that was held back, forward only: {self.why}."


@dataclass(frozen=True)
class HostTimes(Caveat):
    """On a device, module times are those of the host, because kernel times could not be had."""

    why: str

    def __str__(self) -> str:
        return f"Module times are the host's, not the device's: {self.why}. They say when work was handed over, not when it ran."


@dataclass(frozen=True)
class NotSplit(Caveat):
    """One step on a device was timed as a whole."""

    def __str__(self) -> str:
        return (
            "A single step on a device cannot be split by module without slowing it, so only the whole is timed. "
            "flopsight.profile(model, ...) and step_profiler with three steps or more give the time of every module."
        )


@dataclass(frozen=True)
class CompiledWhole(Caveat):
    """A compiled model runs as one piece."""

    def __str__(self) -> str:
        return "The compiled model is timed as a whole: its modules are fused. Costs are counted on the eager model."


@dataclass(frozen=True)
class UnplacedKernels(Caveat):
    """Some device work could not be traced back to a module."""

    seconds: float
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.seconds * 1e6:.0f} us of device work belongs to no module that we could find: {', '.join(self.names[:3])}."


@dataclass(frozen=True)
class BusyMachine(Caveat):
    """Repeated plain runs disagree."""

    spread: float
    repeats: int

    def __str__(self) -> str:
        return (
            f"The {self.repeats} timed runs vary by {self.spread:.0%} (interquartile range over median): "
            f"the machine was busy or its clocks moved. Raise repeats above {self.repeats}."
        )


@dataclass(frozen=True)
class PaceChanged(Caveat):
    """The first half of the plain runs agrees with itself, and so does the second, but not the two with each other."""

    ratio: float
    """Median of the later runs over that of the earlier ones."""

    def __str__(self) -> str:
        return (
            f"The later half of the timed runs took {self.ratio:.2f}x as long as the earlier one: the clocks moved, or "
            f"other work came or went. Raise warmup, or fix the clocks."
        )


@dataclass(frozen=True)
class Note(Caveat):
    """Anything else worth a sentence."""

    text: str

    def __str__(self) -> str:
        return self.text


def all_kinds() -> dict[str, type[Caveat]]:
    """Every kind of caveat by name, for the store."""
    return {kind.__name__: kind for kind in Caveat.__subclasses__()}
