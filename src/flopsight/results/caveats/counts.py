"""Doubts about what was counted."""

from __future__ import annotations

from ...units import size
from ..records import OUTSIDE
from .kind import Caveat


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


class BadFormula(Caveat):
    """A user's formula raised or returned something that is not a cost."""

    op: str
    why: str
    says = "{op} is not counted: {why}."


class DirectForward(Caveat):
    """Modules whose `.forward()` was called by hand."""

    modules: tuple[str, ...]
    says = (
        ".forward() was called directly on {modules}: their work is placed by the parameters it touched. "
        "Call the module itself for exact rows."
    )


class OtherThreads(Caveat):
    """Modules that were called on other threads only."""

    modules: tuple[str, ...]
    says = (
        "Not counted: {modules} ran on other threads than the one that is watched. "
        "Call them on one thread to count them."
    )


class Scripted(Caveat):
    """TorchScript modules, whose submodules run inside an interpreter."""

    modules: tuple[str, ...]
    says = "TorchScript runs the submodules of {modules} by itself: their work is all in that row."


class NoTwin(Caveat):
    """A count on meta was asked for, but the model cannot have a meta twin."""

    why: str
    says = "Counted on real tensors, because the model has no meta twin: {why}."


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


class PutBack(Caveat):
    """A training step was undone: how many bytes were copied for that."""

    copied: int
    updated: bool

    def __str__(self) -> str:
        what = "parameters, optimizer state, buffers and inputs" if self.updated else "buffers and inputs"
        return (
            f"The step was undone: {size(self.copied)} of {what} were copied first and put back afterwards. "
            f'If there is no room for that, count on a copy without data: on="meta", or --meta.'
        )


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


class TwinWithoutAutocast(Caveat):
    """The step ran under autocast, which does not reach the meta device where it was counted."""

    says = (
        "Counted without autocast: MACs and FLOPs are exact, bytes and saved activations are those of full precision."
    )


class Assumed(Caveat):
    """A value that decides how much work is done was not known and had to be assumed."""

    what: str
    where: str = ""
    """The line of the model's code that asked for it."""

    def __str__(self) -> str:
        return f"Assumed: {self.what}{f' ({self.where})' if self.where else ''}."


class UnknownRouting(Caveat):
    """Experts of which it cannot be said how many a token passes."""

    modules: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        shown = ", ".join(path or "the model" for path in self.modules[:3]) + (", ..." if len(self.modules) > 3 else "")
        return f"Active parameters are not known: {self.why} ({shown})."
