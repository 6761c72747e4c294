"""Module times from events where kernels cannot be traced: the stream is held back so that the host runs ahead.

Events between modules measure the device only while the device has work waiting. A host that is slower than the
device would be measured instead, so the device is first given something long to do.
"""

from __future__ import annotations

import torch

from . import internals
from .inputs import Run
from .timing import Timer

MARGIN = 4.0
"""How many times the forward's wall time the stream is held."""


def held_back_pass(run: Run, seconds: float) -> dict[str, float] | None:
    """Device seconds of one forward by path; None where the model waits for the device, so that nothing runs ahead."""
    if run.device.type != "cuda":
        return None

    def event() -> torch.cuda.Event:
        made = torch.cuda.Event(enable_timing=True)
        made.record()
        return made

    timer = Timer(run.plain_model, event)
    torch.cuda.synchronize(run.device)
    internals.hold_stream(MARGIN * seconds)
    released = event()
    with timer.running():
        run.forward()
    ran_ahead = not released.query()
    torch.cuda.synchronize(run.device)
    if not ran_ahead:
        return None
    totals: dict[str, float] = {}
    for _, begin, end, path in timer.calls():
        totals[path] = totals.get(path, 0.0) + begin.elapsed_time(end) / 1000
    return totals
