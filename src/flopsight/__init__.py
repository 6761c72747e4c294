"""flopsight: where a PyTorch model's parameters, MACs, FLOPs, bytes, activations and time go, module by module."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see; tests hold it to the table
    from .analysis.compare import Comparison as Comparison
    from .analysis.compare import compare as compare
    from .analysis.findings.finding import Finding as Finding
    from .compat.aprofiler import AProfiler as AProfiler
    from .compat.deepspeed_profiler import FlopsProfiler as FlopsProfiler
    from .compat.deepspeed_profiler import get_model_profile as get_model_profile
    from .compat.tids import TIDSProfiler as TIDSProfiler
    from .distributed.gather import gather as gather
    from .engine.decoding import generation as generation
    from .engine.measure import count as count
    from .engine.measure import profile as profile
    from .engine.measure import recording as recording
    from .engine.planning import plan as plan
    from .engine.sweeping import sweep as sweep
    from .errors import FlopsightError as FlopsightError
    from .files.store import load as load
    from .formulas.registry import formula as formula
    from .loop.monitor.monitoring import monitor as monitor
    from .loop.window import step_profiler as step_profiler
    from .results.costs import Cost as Cost
    from .results.generation import Generation as Generation
    from .results.job import Job as Job
    from .results.node import Node as Node
    from .results.plan import Plan as Plan
    from .results.plan import PlanOption as PlanOption
    from .results.profile import Profile as Profile
    from .results.records import OpRecord as OpRecord
    from .results.records import TensorMeta as TensorMeta
    from .results.run import Run as Run
    from .results.sweep import Sweep as Sweep

__version__ = "0.2.0"

_HOMES = {
    "profile": "engine.measure",
    "count": "engine.measure",
    "recording": "engine.measure",
    "sweep": "engine.sweeping",
    "plan": "engine.planning",
    "generation": "engine.decoding",
    "load": "files.store",
    "gather": "distributed.gather",
    "compare": "analysis.compare",
    "formula": "formulas.registry",
    "Comparison": "analysis.compare",
    "Cost": "results.costs",
    "Finding": "analysis.findings.finding",
    "Generation": "results.generation",
    "Job": "results.job",
    "Node": "results.node",
    "Plan": "results.plan",
    "PlanOption": "results.plan",
    "Profile": "results.profile",
    "Run": "results.run",
    "Sweep": "results.sweep",
    "OpRecord": "results.records",
    "TensorMeta": "results.records",
    "FlopsightError": "errors",
    "get_model_profile": "compat.deepspeed_profiler",
    "FlopsProfiler": "compat.deepspeed_profiler",
    "TIDSProfiler": "compat.tids",
    "AProfiler": "compat.aprofiler",
    "step_profiler": "loop.window",
    "monitor": "loop.monitor.monitoring",
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
