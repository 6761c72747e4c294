"""When steps begin and end, without waiting for the device: events in its stream, which are read when they are done."""

from __future__ import annotations

from typing import Any

import torch

from ...capture.time.clock import HOSTS, time_of_this_thread

Moment = Any
"""Seconds on the host, or an event in the device's stream."""


class StepClock:
    """Moments of a loop: on a host its clock, which stands still while flopsight works, else events of the stream."""

    def __init__(self, device: torch.device) -> None:
        self.now = time_of_this_thread()
        self._type = None if device.type in HOSTS else device.type

    @property
    def queues(self) -> bool:
        """True if moments are events, which are known only when the device gets there."""
        return self._type is not None

    def moment(self) -> Moment:
        """Now, in the order of the work."""
        if self._type is None:
            return self.now()
        event = torch.Event(self._type, enable_timing=True)
        event.record()
        return event

    def reached(self, moment: Moment) -> bool:
        """True if the device has come to a moment; never waits."""
        return self._type is None or bool(moment.query())

    def seconds(self, begin: Moment, end: Moment) -> float:
        """Time between two moments that were reached."""
        return float(end - begin) if self._type is None else begin.elapsed_time(end) / 1000
