"""Which private names of torch are there."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from ..capture.hooks.private_names import PRIVATE_NAMES, SINCE
from ..capture.hooks.release import TORCH
from .checkup import Checked

GROUP = "private torch APIs"


def private_apis() -> Iterator[Checked]:
    """One check for each name that this torch lacks, or one for all of them."""
    needed = [name for name in PRIVATE_NAMES if SINCE.get(name, TORCH) <= TORCH]
    missing = [name for name in needed if find(name) is None]
    for name in missing:
        yield Checked(GROUP, name, False, "this torch does not have it", PRIVATE_NAMES[name])
    if not missing:
        yield Checked(GROUP, "all", True, f"{len(needed)} of {len(needed)} are there", "")


def find(name: str) -> Any:
    """What a dotted name stands for, or None."""
    parts = name.split(".")
    found: Any = import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = import_module(".".join(parts[:i]))
            except ImportError:
                return None
    return found
