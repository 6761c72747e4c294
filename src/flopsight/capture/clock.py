"""Reading the time: the host's clock, waiting for a device to be done, and time that is ours and not the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import torch

_paused = 0.0


def user_time() -> float:
    """Seconds since some moment, without those that flopsight itself has taken."""
    return perf_counter() - _paused


@contextmanager
def pausing() -> Iterator[None]:
    """What happens inside does not happen for any clock: another profiler around us times the user, not us."""
    global _paused  # noqa: PLW0603
    begin = perf_counter()
    try:
        yield
    finally:
        _paused += perf_counter() - begin


@dataclass(frozen=True)
class Clock:
    """How to read the time; tests hand in one that they turn by hand."""

    now: Callable[[], float] = user_time
    """Seconds since some moment."""
    wait: Callable[[], None] = lambda: None
    """Return when all work handed to the device is done."""


def clock_for(device: torch.device) -> Clock:
    """The clock for a model on a device."""
    if device.type in ("cpu", "meta"):
        return Clock()
    return Clock(wait=lambda: torch.accelerator.synchronize(device))
