"""Memory of the device, or of the process on a CPU, as the allocator or the system has counted it so far."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

from ...capture.time.clock import HOSTS

STATUS = Path("/proc/self/status")


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
        stats = torch.cuda.memory_stats_as_nested_dict(device)  # `memory_stats` takes several times as long
        held = stats.get("allocated_bytes", {}).get("all", {})
        return MemoryUse(held.get("peak"), held.get("current"), stats.get("num_alloc_retries", 0))
    return MemoryUse(_peak_of_process() if device.type in HOSTS else None)


def _peak_of_process() -> int | None:
    """The most that this process has held; None if the system does not tell."""
    if resource is None:
        return None
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":
        return used
    if _inherited is not None and used > _inherited:
        return 1024 * used
    return _peak_by_file(used)


_inherited: int | None = None
"""What Linux's ru_maxrss may have from the process that started this one, in kB: above it, it is our own, and far faster to read."""


def _peak_by_file(used: int) -> int | None:
    global _inherited  # noqa: PLW0603
    with suppress(OSError, ValueError):
        status = STATUS.read_bytes()
        at = status.index(b"VmHWM:") + 6
        peak = int(status[at : status.index(b"kB", at)])
        _inherited = used if peak < used else used - 1
        return 1024 * peak
    return None
