"""Module times from events where kernels cannot be traced: the stream is held back so that the host runs ahead.

Events between modules measure the device only while the device has work waiting. A host that is slower than the
device would be measured instead, so the device is first given something long to do.
"""

from __future__ import annotations

from ..hooks import internals
from ..model.run import Run
from .clock import clock_for
from .module_marks import Timer

MARGIN = 4.0
"""How many times the forward's wall time the stream is held."""


def held_back_pass(run: Run, seconds: float) -> dict[str, float] | None:
    """Device seconds of one forward by path; None where the model waits for the device, so that nothing runs ahead."""
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
