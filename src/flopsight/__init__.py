"""flopsight: where a PyTorch model's parameters, MACs, FLOPs, bytes, activations and time go, module by module."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "profile": "measure",
    "count": "measure",
    "recording": "measure",
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


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that what needs no torch starts without it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'flopsight' has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
