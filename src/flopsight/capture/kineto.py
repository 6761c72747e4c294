"""What the device did: torch's profiler as a source of plain events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from . import internals
from .kernels import TraceEvent


class NoDeviceTrace(Exception):
    """Kernel times cannot be had; the message says why."""


class DeviceTrace:
    """The events of one traced run."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []


@contextmanager
def device_trace(device: torch.device, *, ops: bool, shapes: bool = False) -> Iterator[DeviceTrace]:
    """Trace the device's work inside the block; with `ops`, the host's ops and autograd nodes too."""
    trace = DeviceTrace()
    activity = getattr(ProfilerActivity, device.type.upper(), None)
    if activity is None:
        raise NoDeviceTrace(f"torch's profiler does not trace {device.type} devices")
    activities = {activity, ProfilerActivity.CPU} if ops else {activity}
    profiler = torch.profiler.profile(activities=activities, record_shapes=shapes, acc_events=True)
    try:
        profiler.start()
    except RuntimeError as problem:
        raise NoDeviceTrace(f"a profiler is already running in this process ({problem})") from problem
    try:
        yield trace
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
    finally:
        profiler.stop()
    results: Any = profiler.profiler
    trace.events = [_event(raw) for raw in results.kineto_results.events()]
    if device.type != "cpu" and not any(event.device for event in trace.events):
        raise NoDeviceTrace("torch's profiler saw no kernels (is CUPTI missing?)")


def _event(raw: Any) -> TraceEvent:
    on_device = raw.device_type() != internals.DeviceType.CPU and not raw.is_user_annotation()
    return TraceEvent(
        name=raw.name(),
        begin=raw.start_ns(),
        end=raw.end_ns(),
        device=on_device,
        lane=raw.device_resource_id(),
        correlation=raw.correlation_id(),
        linked=raw.linked_correlation_id(),
        sequence=raw.sequence_nr(),
        shapes=tuple(tuple(shape) for shape in raw.shapes() if isinstance(shape, list) and shape),
    )
