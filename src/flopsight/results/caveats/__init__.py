"""Every doubt that a profile can carry: a closed list, each a value with its measurement and its advice."""

from .counts import (
    Assumed,
    BadFormula,
    DirectForward,
    NoTwin,
    OtherPath,
    OtherThreads,
    PutBack,
    Raised,
    Scripted,
    TwinWithoutAutocast,
    UnknownOps,
    UnknownRouting,
)
from .kind import Caveat, Note
from .latencies import (
    BusyMachine,
    CompiledWhole,
    Distorted,
    HeldBack,
    HostTimes,
    NotSplit,
    PaceChanged,
    PhasesApart,
    UnplacedKernels,
    UnsteadyModules,
)
from .steps import (
    CountedEager,
    CountedLive,
    CutOff,
    MovedWindow,
    NotCalled,
    ShapesChanged,
    Window,
)

__all__ = [
    "Assumed",
    "BadFormula",
    "BusyMachine",
    "Caveat",
    "CompiledWhole",
    "CountedEager",
    "CountedLive",
    "CutOff",
    "DirectForward",
    "Distorted",
    "HeldBack",
    "HostTimes",
    "MovedWindow",
    "NoTwin",
    "NotCalled",
    "NotSplit",
    "Note",
    "OtherPath",
    "OtherThreads",
    "PaceChanged",
    "PhasesApart",
    "PutBack",
    "Raised",
    "Scripted",
    "ShapesChanged",
    "TwinWithoutAutocast",
    "UnknownOps",
    "UnknownRouting",
    "UnplacedKernels",
    "UnsteadyModules",
    "Window",
    "all_kinds",
]


def all_kinds() -> dict[str, type[Caveat]]:
    """Every kind of caveat by name, for the store."""
    return {kind.__name__: kind for kind in Caveat.__subclasses__()}
