"""Reading the time: the host's clock, waiting for a device to be done, and time that is ours and not the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

HOSTS = ("cpu", "meta")
"""Devices whose work is done when a call returns."""

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


Mark = Any
"""A moment: seconds on the host's clock, or an event in a device's stream."""


@dataclass(frozen=True)
class Clock:
    """How to read the time; tests hand in one that they turn by hand."""

    now: Callable[[], float] = user_time
    """Seconds since some moment."""
    wait: Callable[[], None] = lambda: None
    """Return when all work handed to the device is done."""
    mark: Callable[[], Mark] = user_time
    """A moment in the order of the work, taken without waiting for it."""

    @staticmethod
    def seconds(begin: Mark, end: Mark) -> float:
        """Time between two marks; for events, after the device is done."""
        return float(end - begin) if isinstance(end, float) else begin.elapsed_time(end) / 1000


def clock_for(device: torch.device) -> Clock:
    """The clock for a model on a device."""
    if device.type in HOSTS:
        return Clock()
    return Clock(wait=lambda: torch.accelerator.synchronize(device), mark=lambda: _event(device))


def _event(device: torch.device) -> torch.Event:
    event = torch.Event(device.type, enable_timing=True)
    event.record()
    return event
