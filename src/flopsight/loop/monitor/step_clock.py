"""When steps begin and end, without waiting for the device: events in its stream, which are read when they are done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...capture.time.clock import HOSTS, own_pauses, time_of_this_thread

Moment = Any
"""Seconds on the host, or an event in the device's stream."""


class StepClock:
    """Moments of a loop: on a host its clock, which stands still while flopsight works, else events of the stream."""

    def __init__(self, device: torch.device) -> None:
        self.now = time_of_this_thread()
        self.pauses = own_pauses()
        """The seconds that flopsight took on this thread, in a list."""
        self.queues = device.type not in HOSTS
        """True if moments are events, which are known only when the device gets there."""
        self.moment: Callable[[], Moment] = self._event if self.queues else self.now
        """Now, in the order of the work."""
        self._type = device.type
        self._spare: list[torch.Event] = []

    def _event(self) -> torch.Event:
        event = self._spare.pop() if self._spare else torch.Event(self._type, enable_timing=True)
        event.record()
        return event

    def reuse(self, moment: Moment) -> None:
        """Take back an event that was reached and is not read again: to make one takes longer than to record it."""
        self._spare.append(moment)

    def reached(self, moment: Moment) -> bool:
        """True if the device has come to a moment; never waits."""
        return not self.queues or bool(moment.query())

    def seconds(self, begin: Moment, end: Moment) -> float:
        """Time between two moments that were reached."""
        return begin.elapsed_time(end) / 1000 if self.queues else float(end - begin)
