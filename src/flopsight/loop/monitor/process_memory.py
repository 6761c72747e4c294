"""Memory of the device, or of the process on a CPU, as the allocator or the system has counted it so far."""

from __future__ import annotations

import sys
from typing import NamedTuple

import torch

from ...capture.time.clock import HOSTS


class MemoryUse(NamedTuple):
    """Bytes; None for what is not known."""

    peak: int | None = None
    """The most so far: nothing is reset, because the loop may read the same counter."""
    allocated: int | None = None
    retries: int = 0
    """How often the allocator had to give cached memory back before it found some."""


def memory_use(device: torch.device) -> MemoryUse:
    """What is in use now; on a CPU the peak of the whole process."""
    if device.type == "cuda":
        stats = torch.cuda.memory_stats(device)
        peak, now = stats.get("allocated_bytes.all.peak"), stats.get("allocated_bytes.all.current")
        return MemoryUse(peak, now, stats.get("num_alloc_retries", 0))
    if device.type in HOSTS and sys.platform != "win32":
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return MemoryUse(most * (1 if sys.platform == "darwin" else 1024))
    return MemoryUse()
