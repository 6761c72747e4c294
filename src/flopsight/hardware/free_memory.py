"""How much memory is free: this machine's, inside the limits of its container, or a GPU's."""

from __future__ import annotations

import os
from pathlib import Path

LIMIT_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)
"""A container's limit, what it uses, and how much of that is file cache that can be dropped: both versions of cgroups."""


def free_memory(device: str = "cpu") -> int | None:
    """Bytes that can still be allocated on a device; None if the system does not say."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    known = [free for free in (_free_on_host(Path("/proc/meminfo")), *map(_free_in_container, LIMIT_FILES)) if free]
    return min(known) if known else None


def _free_on_host(meminfo: Path) -> int | None:
    try:
        lines = meminfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        pages = {"SC_AVPHYS_PAGES", "SC_PAGE_SIZE"}
        if not pages <= set(getattr(os, "sysconf_names", ())):
            return None
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(found["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in found else None


def _free_in_container(files: tuple[str, str, str]) -> int | None:
    limit, used, stat = (_read(Path(name)) for name in files)
    if limit is None or used is None or not limit.strip().isdigit():
        return None
    cache = [line.split()[1] for line in (stat or "").splitlines() if line.startswith("inactive_file ")]
    return max(0, int(limit) - int(used) + int(cache[0] if cache else 0))


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
