"""Which releases of torch flopsight runs on: the first import of capture refuses one that is too old."""

from __future__ import annotations

import re

import torch

from ...errors import TorchError

RELEASES = ("2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.0", "2.13.0", "2.14.1", "2.15.0")
"""Every release that `make torch-matrix` runs, oldest first; a newer one is unproven until it stands here."""


def parse(version: str) -> tuple[int, ...]:
    """Major and minor number of a version: `2.13.0+cpu` is `(2, 13)`."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


TORCH = parse(torch.__version__)
"""The release that is installed."""
OLDEST, NEWEST = parse(RELEASES[0]), parse(RELEASES[-1])


def unproven(version: str) -> bool:
    """Whether a torch is newer than every release that was tested."""
    return parse(version) > NEWEST


def refuse_old(version: str) -> None:
    """Raise if a torch is too old to be watched."""
    if parse(version) < OLDEST:
        low, high = (".".join(map(str, release)) for release in (OLDEST, NEWEST))
        raise TorchError(
            f"torch {version} is too old for flopsight: it runs on torch {low} and newer, and is tested up to {high}. "
            "Install a newer torch."
        )


refuse_old(torch.__version__)
