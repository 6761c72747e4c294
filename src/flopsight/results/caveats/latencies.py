"""Doubts about times."""

from __future__ import annotations

from .kind import Caveat


class Distorted(Caveat):
    """Runs with marks, which give the times by module, did not take the time of plain runs."""

    ratio: float
    scaled: bool = False
    """True if the times by module were scaled to the plain runs."""

    def __str__(self) -> str:
        done = "they are scaled to the plain one" if self.scaled else "trust their shares"
        return f"Per-module times come from a pass {self.ratio:.2f}x as long as the plain one; {done}."


class PhasesApart(Caveat):
    """Forward, backward and optimizer together took longer than the step, which was timed as one piece."""

    ratio: float
    says = (
        "Forward, backward and optimizer latency add up to {ratio:.2f}x the step latency: the phases were "
        "timed with a wait for the device after each, the step as one piece. The step latency is that of a loop."
    )


class UnsteadyModules(Caveat):
    """Some modules took a different share of the forward from run to run."""

    modules: tuple[str, ...]
    spreads: tuple[float, ...]
    """Distance between the quartiles of a module's share, relative to its median."""

    def __str__(self) -> str:
        named = ", ".join(f"{path} {spread:.0%}" for path, spread in zip(self.modules, self.spreads, strict=False))
        return f"The times of some modules vary from run to run (quartiles apart): {named}. Raise repeats (--repeats)."


class HeldBack(Caveat):
    """Module times are from events, because kernel times could not be had."""

    why: str
    says = "Module times are from events in a stream that was held back, forward only: {why}."


class HostTimes(Caveat):
    """On a device, module times are those of the host, because kernel times could not be had."""

    why: str
    says = "Module times are the host's, not the device's: {why}. They say when work was handed over, not when it ran."


class NotSplit(Caveat):
    """One step on a device was timed as a whole."""

    says = (
        "A single step on a device cannot be split by module without slowing it, so only the whole is timed. "
        "flopsight.profile(model, ...) and step_profiler with three steps or more give the time of every module."
    )


class CompiledWhole(Caveat):
    """A compiled model runs as one piece."""

    says = "The compiled model is timed as a whole: its modules are fused. Costs are counted on the eager model."


class UnplacedKernels(Caveat):
    """Some device work could not be traced back to a module."""

    seconds: float
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.seconds * 1e6:.0f} us of device work belongs to no module that we could find: {', '.join(self.names[:3])}."


class BusyMachine(Caveat):
    """Repeated plain runs disagree."""

    spread: float
    repeats: int
    says = (
        "The {repeats} timed runs vary by {spread:.0%} (interquartile range over median): "
        "the machine was busy or its clocks moved. Raise repeats (--repeats) above {repeats}."
    )


class CrowdedCores(Caveat):
    """A thread of the process often had to wait for a free core while runs were timed."""

    share: float
    """Of the time, that of the thread which waited longest."""
    says = (
        "The process waited for a free core {share:.0%} of the time in which it was timed: other programs, or more "
        "threads than cores, had them. The times are those of a crowded machine."
    )


class PaceChanged(Caveat):
    """The first half of the plain runs agrees with itself, and so does the second, but not the two with each other."""

    ratio: float
    """Median of the later runs over that of the earlier ones."""
    says = (
        "The later half of the timed runs took {ratio:.2f}x as long as the earlier one: the clocks moved, or "
        "other work came or went. Raise warmup (--warmup), or fix the clocks."
    )
