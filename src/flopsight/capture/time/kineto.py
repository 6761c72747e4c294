"""Runs torch's profiler and gives its events as plain values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch.profiler import ProfilerActivity, supported_activities
from torch.torch_version import TorchVersion

from ..hooks import internals
from .kernels import TraceEvent

_lock = Lock()
LOG_LEVEL = "KINETO_LOG_LEVEL"
TEARDOWN = "TEARDOWN_CUPTI"
"""The environment variable that makes torch's tracer detach from the device when it stops."""


class NoDeviceTrace(Exception):
    """The device cannot be traced; the message says why."""


@contextmanager
def device_trace(device: torch.device, *, shapes: bool = False) -> Iterator[list[TraceEvent]]:
    """Trace what the device and the host do inside the block. The list of events is filled when the block ends."""
    events: list[TraceEvent] = []
    if internals.profiler_running():  # a second one would end the first without a word, or the process
        raise NoDeviceTrace("a profiler is already running in this process")
    profiler = _profiler(device, shapes=shapes)
    try:
        # keeps torch's tracer from writing lines of its own to stderr: it reads the variable when it first starts
        with _variable(LOG_LEVEL, "9"):
            profiler.__enter__()
    except RuntimeError as problem:
        raise NoDeviceTrace(f"torch's profiler does not start ({problem})") from problem
    try:
        yield events
        _wait(device)
    finally:
        profiler.__exit__(None, None, None)
        _detach(device)
    results: Any = profiler.kineto_results
    events += [_event(raw) for raw in results.events() if not _is_device_annotation(raw)]
    if device.type != "cpu" and not any(event.device for event in events):
        raise NoDeviceTrace("torch's profiler saw no kernels (is CUPTI missing?)")


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment inside the block, unless the user has."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)


def _profiler(device: torch.device, *, shapes: bool = False) -> Any:
    """Make a torch profiler that has not started."""
    activity = getattr(ProfilerActivity, device.type.upper(), None)
    if activity not in supported_activities():
        raise NoDeviceTrace(f"torch's profiler does not trace {device.type} devices here")
    # Not torch.profiler.profile: that one imports the compiler, which takes seconds, and changes the environment.
    use_device = None if device.type == "cpu" else device.type
    return torch.autograd.profiler.profile(use_kineto=True, use_device=use_device, record_shapes=shapes)


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _detach(device: torch.device) -> None:
    """Detach the tracer from the device.

    CUPTI stays attached after a trace, and every later launch of the process then takes up to twice as long. It
    detaches after a trace that ran with the variable set, so one empty trace is made. Before CUDA 12.6 that breaks
    CUDA graphs, so there it stays attached.
    """
    if device.type != "cuda" or not torch.version.cuda or TorchVersion(torch.version.cuda) < "12.6":
        return
    with _lock:
        if TEARDOWN in os.environ:
            return  # the user has decided
        with _variable(TEARDOWN, "1"):
            with _profiler(device):
                _wait(device)
            _wait(device)  # it goes with the next call into CUDA


def _is_device_annotation(raw: Any) -> bool:
    """Whether an event only repeats, on the device's side, a name that the host gave to several kernels."""
    return raw.device_type() != internals.DeviceType.CPU and bool(raw.is_user_annotation())


def _event(raw: Any) -> TraceEvent:
    return TraceEvent(
        name=raw.name(),
        begin=raw.start_ns(),
        end=raw.end_ns(),
        device=raw.device_type() != internals.DeviceType.CPU,
        lane=raw.device_resource_id(),
        correlation=raw.correlation_id(),
        linked=raw.linked_correlation_id(),
        sequence=raw.sequence_nr(),
        shapes=tuple(tuple(shape) for shape in raw.shapes() if isinstance(shape, list) and shape),
    )
