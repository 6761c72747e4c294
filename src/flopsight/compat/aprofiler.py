"""AProfiler: prints activation bytes and FLOPs by depth in that profiler's format."""

from __future__ import annotations

import warnings
from typing import Any

from .. import units
from ..errors import InputError
from ..hardware.dtypes import torch_name
from ..render.aprofiler_page import AGGREGATE
from .deepspeed_profiler import FlopsProfiler


class AProfiler(FlopsProfiler):
    """A FlopsProfiler that also gives the bytes of activations and the share of the device's peak.

    `model`, `ds_engine` and `recompute_fwd_factor` are those of `FlopsProfiler`. What runs between `start_profile` and
    `stop_profile` is added up, one step or a window of steps.
    """

    format = "aprofiler"
    _aggregate = AGGREGATE

    def get_total_activation(self, as_string: bool = False) -> Any:
        """Bytes saved for backward; as text with its unit if `as_string`."""
        size = self.profile.activation_bytes
        return units.deepspeed_large(size, "B") if as_string else size

    def compute_gpu_utilization(self, total_steps_time: float, dtype: object = None) -> float | None:
        """The FLOPs that were counted, over `total_steps_time` seconds of their steps, over the device's dense peak in `dtype`.

        The profiler counts the forward. For whole training steps, `step_profiler(...).profile.mfu` has the backward too.
        None, and a warning that says why, where the device's peak is not known.
        """
        if not total_steps_time > 0:
            raise InputError(
                f"total_steps_time must be the seconds that the profiled steps took, not {total_steps_time!r}."
            )
        profile = self.profile
        name = torch_name(profile.environment.dtype if dtype is None else dtype)
        peak = profile.peak_flops.get(name)
        if peak is None:
            warnings.warn(
                f"The utilization is not known, because no dense {name} peak of this device "
                f"({profile.environment.device_name}) is known. State one: FLOPSIGHT_PEAK_FLOPS='{name}=989e12'.",
                stacklevel=2,
            )
            return None
        return profile.flops / (total_steps_time * peak)
