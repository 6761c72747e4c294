"""Time in which the device has nothing to do: it waits for launches or for input data."""

from __future__ import annotations

from collections.abc import Iterator

from ... import units
from .finding import Finding
from .scene import WORTH, Scene


def launch_bound(scene: Scene) -> Iterator[Finding]:
    """The host hands over kernels more slowly than the device runs them."""
    if not scene.launch_bound or scene.step is None or scene.busy is None:
        return
    win = scene.step - scene.busy
    calls = scene.profile.coverage.calls
    yield Finding(
        "launch",
        "The device waits for the host",
        ("",),
        f"kernels take {units.seconds(scene.busy)} of {units.seconds(scene.step)}, the host hands over "
        f"{units.count(calls)} op calls",
        'CUDA graphs, torch.compile(model, mode="reduce-overhead"), or a larger batch',
        win,
    )


def data_wait(scene: Scene) -> Iterator[Finding]:
    """The loop waits for its next batch."""
    timing = scene.profile.timing
    if not (scene.measured and timing.data_wait and timing.iteration):
        return
    win, whole = timing.data_wait.median, timing.iteration.median  # without training, the step is its forward alone
    if win < WORTH * whole:
        return
    yield Finding(
        "data",
        "Every step waits for its batch",
        ("",),
        f"{units.seconds(win)} of {units.seconds(whole)} a step",
        "more workers, pinned memory, or prefetching in the DataLoader",
        win,
        win / whole,
    )
