"""Reading the time: the host's clock, and waiting for a device to be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch


@dataclass(frozen=True)
class Clock:
    """How to read the time; tests hand in one that they turn by hand."""

    now: Callable[[], float] = perf_counter
    """Seconds since some moment."""
    wait: Callable[[], None] = lambda: None
    """Return when all work handed to the device is done."""


def clock_for(device: torch.device) -> Clock:
    """The clock for a model on a device."""
    if device.type in ("cpu", "meta"):
        return Clock()
    return Clock(wait=lambda: torch.accelerator.synchronize(device))
