"""Torch's own profiler, and a stream that is kept busy."""

from __future__ import annotations

import gc

import torch

DeviceType = torch._C._autograd.DeviceType
"""Where an event of a trace ran."""


def profiler_running() -> bool:
    """Whether a profiler of torch's runs on any thread of this process, or is about to: one that warms up sets no flag."""
    kind = torch.autograd.profiler.profile
    if torch._C._autograd._profiler_enabled() or torch.autograd.profiler._is_profiler_enabled:
        return True
    alive = (one for one in gc.get_objects() if type(one) is kind)
    return any(getattr(one, "entered", False) and one.kineto_results is None for one in alive)


def hold_stream(seconds: float) -> None:
    """Keep the current CUDA stream busy for about that long; the device's clock is taken as 2 GHz."""
    torch.cuda._sleep(int(seconds * 2e9))
