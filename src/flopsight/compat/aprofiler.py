"""AProfiler: activation bytes beside FLOPs, by depth, in the form its users know."""

from __future__ import annotations

from typing import Any

from .. import units
from .flops_profiler import FlopsProfiler


class AProfiler(FlopsProfiler):
    """A FlopsProfiler that also tells what the activations take."""

    format = "aprofiler"

    def get_total_activation(self, as_string: bool = False) -> Any:
        """Bytes saved for backward."""
        size = self.profile.activation_bytes
        return units.seed_large(size, "B") if as_string else size
