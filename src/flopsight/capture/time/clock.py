"""Clocks: the host's time without our own share of it, and events in a device's stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from time import perf_counter
from typing import Any

import torch

from .core_waits import Waits, core_waits

HOSTS = ("cpu", "meta")
"""Devices whose work is done when a call returns."""

_pauses: dict[int, list[float]] = {}


def own_pauses() -> list[float]:
    """The seconds that flopsight took on this thread, in a list that other threads may hold on to."""
    return _pauses.setdefault(get_ident(), [0.0])


def time_of_this_thread() -> Callable[[], float]:
    """This thread's clock, readable from other threads; it pauses while flopsight itself is working on this thread."""
    pauses = own_pauses()
    return lambda: perf_counter() - pauses[0]


def user_time() -> float:
    """Seconds since some moment, without those that flopsight took on this thread."""
    return perf_counter() - own_pauses()[0]


@contextmanager
def pausing() -> Iterator[None]:
    """Pause this thread's clocks, so that another profiler around us does not time our work as the user's."""
    now, pauses = time_of_this_thread(), own_pauses()
    begin = now()
    try:
        yield
    finally:
        pauses[0] += now() - begin  # a pause within this one is part of it already


Mark = Any
"""A moment: seconds on the host's clock, or an event in a device's stream."""


@dataclass(frozen=True)
class Clock:
    """How to read the time; tests pass one that they move themselves."""

    now: Callable[[], float] = user_time
    """Seconds since some moment."""
    wait: Callable[[], None] = lambda: None
    """Return when all work handed to the device is done."""
    mark: Callable[[], Mark] = user_time
    """A moment in the order of the work, taken without waiting for it."""
    queues: bool = False
    """True if a call returns before its work is done, as on a GPU: a wait between two calls then takes time."""
    core_waits: Callable[[], Waits] = dict
    """How long each thread of this process has waited for a free core."""

    @staticmethod
    def seconds(begin: Mark, end: Mark) -> float:
        """Time between two marks; for events, after the device is done."""
        return float(end - begin) if isinstance(end, float) else begin.elapsed_time(end) / 1000


def clock_for(device: torch.device) -> Clock:
    """The clock for a model on a device, to be read for what this thread does."""
    now = time_of_this_thread()
    if device.type in HOSTS:
        return Clock(now, mark=now, core_waits=core_waits)
    return Clock(
        now,
        wait=lambda: torch.accelerator.synchronize(device),
        mark=lambda: _event(device),
        queues=True,
        core_waits=core_waits,
    )


def _event(device: torch.device) -> torch.Event:
    event = torch.Event(device.type, enable_timing=True)
    event.record()
    return event
