"""Ceilings of the device at hand: what was measured on this machine and kept, else the datasheet's figures."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..errors import OutputError
from ..files.codec import Codec, DamagedError
from ..files.whole_files import read_text, write_text
from ..results.ceilings import Ceilings
from .detect import Found, cpu_name
from .named import ceilings_from

VARIABLE = "FLOPSIGHT_CACHE_DIR"
"""The environment variable that names another folder for what is measured."""
FILE = "ceilings.json"


def ceilings_of(found: Found, threads: int = 0, measured: Ceilings | None = None) -> Ceilings | None:
    """What limits on a device are taken against: what is `measured`, or was and is kept; None if nothing is known of it."""
    sheet = datasheet_of(found)
    kept = measured or recall(found.name, threads)
    if kept is None:
        return sheet
    if sheet is None:
        return replace(kept, flops={**kept.flops, **found.stated})
    # a dtype that was not measured keeps the datasheet's rate; what the user states goes before both
    flops = {**sheet.flops, **_as_allowed(kept, found), **found.stated}
    return replace(
        kept, flops=flops, memory=kept.memory or sheet.memory, link=sheet.link, cache=kept.cache or sheet.cache
    )


def datasheet_of(found: Found) -> Ceilings | None:
    """The table's figures for a device, with the peaks that the user states; None if it has no row."""
    if found.known is None:
        return None
    return replace(ceilings_from(found.known, found.peak_flops()), name=found.name)


def _as_allowed(kept: Ceilings, found: Found) -> dict[str, float]:
    """Measured rates under torch's present settings: float32 at TF32's rate if products may use it."""
    flops = dict(kept.flops)
    tf32 = flops.pop("tf32", None)
    if tf32 is None:
        return flops
    if "matmul" in found.tf32:
        return flops | {"float32": tf32, "tf32": tf32}
    return flops | ({"float32/cudnn": tf32} if "cudnn" in found.tf32 else {})


def remember(ceilings: Ceilings, threads: int = 0) -> Path:
    """Keep what was measured, for this machine, device and number of threads."""
    try:
        path = cache_file()
    except RuntimeError as problem:  # there may be no home folder
        raise OutputError(f"What was measured cannot be kept: {problem} {VARIABLE} names a folder for it.") from None
    pages = _pages() | {_key(ceilings.name, threads): asdict(ceilings)}
    return write_text(path, json.dumps(pages, indent=1))


def recall(name: str, threads: int = 0) -> Ceilings | None:
    """What was measured for a device of this machine; None if nothing was, or what is kept is damaged."""
    page = _pages().get(_key(name, threads))
    try:
        found = Codec({}, {}).decode(Ceilings, page)
    except DamagedError:
        return None
    rates = (*found.flops.values(), found.bandwidth)
    return found if found.flops and found.measured and all(rates) else None


def cache_file() -> Path:
    """Where measured ceilings are kept."""
    stated = os.environ.get(VARIABLE)
    if stated:
        return Path(stated) / FILE
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "flopsight" / FILE


def cpu_cache() -> int | None:
    """Bytes of the processor's largest cache, if the system says it."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        if text.endswith("K") and text[:-1].isdigit():
            sizes.append(int(text[:-1]) * 1024)
    return max(sizes, default=None)


def _pages() -> dict[str, Any]:
    try:
        pages = json.loads(read_text(cache_file()))
    except (OSError, ValueError, RuntimeError):  # a home folder may not be there either
        return {}
    return pages if isinstance(pages, dict) else {}


def _key(name: str, threads: int) -> str:
    """What figures hold for: the machine, the device, the torch whose kernels ran; of a CPU what they may use of it too."""
    import torch

    parts = [platform.node(), name, f"torch {torch.__version__}"]
    if name == cpu_name():
        limited = os.environ.get("ONEDNN_MAX_CPU_ISA", "")
        parts += [f"{threads} threads", f"{_processors()} processors", torch.backends.cpu.get_cpu_capability(), limited]
    return " / ".join(filter(None, parts))


def _processors() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
