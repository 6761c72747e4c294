"""flopsight: where a PyTorch model's parameters, MACs, FLOPs, bytes, activations and time go, module by module."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see; tests hold it to the table
    from .analysis.compare import compare as compare
    from .compat.aprofiler import AProfiler as AProfiler
    from .compat.flops_profiler import FlopsProfiler as FlopsProfiler
    from .compat.flops_profiler import get_model_profile as get_model_profile
    from .compat.tids import TIDSProfiler as TIDSProfiler
    from .decoding import generation as generation
    from .distributed.gather import gather as gather
    from .errors import FlopsightError as FlopsightError
    from .formulas.registry import formula as formula
    from .job import Job as Job
    from .loop.window import step_profiler as step_profiler
    from .measure import count as count
    from .measure import profile as profile
    from .measure import recording as recording
    from .records import OpRecord as OpRecord
    from .records import TensorMeta as TensorMeta
    from .store import load as load
    from .sweeping import sweep as sweep
    from .tree import Cost as Cost
    from .tree import Node as Node
    from .tree import Profile as Profile

__version__ = "0.2.0"

_HOMES = {
    "profile": "measure",
    "count": "measure",
    "recording": "measure",
    "sweep": "sweeping",
    "generation": "decoding",
    "load": "store",
    "gather": "distributed.gather",
    "compare": "analysis.compare",
    "formula": "formulas.registry",
    "Cost": "tree",
    "Job": "job",
    "Node": "tree",
    "Profile": "tree",
    "OpRecord": "records",
    "TensorMeta": "records",
    "FlopsightError": "errors",
    "get_model_profile": "compat.flops_profiler",
    "FlopsProfiler": "compat.flops_profiler",
    "TIDSProfiler": "compat.tids",
    "AProfiler": "compat.aprofiler",
    "step_profiler": "loop.window",
}
"""Where each public name lives. No submodule bears a public name, so `flopsight.profile` is always the function."""

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604


if not TYPE_CHECKING:  # a type checker would take every misspelt name for Any

    def __getattr__(name: str) -> Any:
        """Import a public name on first use, so that what needs no torch starts without it."""
        if name not in _HOMES:
            raise AttributeError(f"module 'flopsight' has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
