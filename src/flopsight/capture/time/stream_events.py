"""Module times from events in the stream, for devices whose kernels cannot be traced.

Events between modules measure the device only while it has work queued. Otherwise they measure the host. So the
stream is first blocked for a while, and the host queues the whole forward meanwhile.
"""

from __future__ import annotations

from ..hooks import internals
from ..model.model_run import ModelRun
from .clock import clock_for
from .module_marks import Timer

MARGIN = 4.0
"""How many times the forward's wall time the stream is held."""


def run_held_back(run: ModelRun, seconds: float) -> dict[str, float] | None:
    """Device seconds of one forward by path; None where the model itself waits for the device, so nothing is queued."""
    if run.device.type != "cuda":
        return None

    clock = clock_for(run.device)
    timer = Timer(run.plain_model, clock.mark)
    clock.wait()
    internals.hold_stream(MARGIN * seconds)
    released = clock.mark()
    with timer.running():
        run.forward()
    ran_ahead = not released.query()
    clock.wait()
    return timer.sums(clock.seconds) if ran_ahead else None
