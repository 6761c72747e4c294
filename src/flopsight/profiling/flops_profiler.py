"""`from flopsight.profiling.flops_profiler import get_model_profile, FlopsProfiler`."""

from ..compat.deepspeed_profiler import FlopsProfiler, get_model_profile

__all__ = ["FlopsProfiler", "get_model_profile"]
