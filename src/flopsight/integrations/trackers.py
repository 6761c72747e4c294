"""A profile's figures as scalars in an experiment tracker: TensorBoard, W&B, or whatever takes a name and a number."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from ..results.profile import Profile

PREFIX = "flopsight/"
PHASES = ("forward", "backward", "optimizer", "step", "iteration", "data_wait")


def scalars(profile: Profile) -> dict[str, float]:
    """The figures by name, like `flopsight/mfu`; those that the profile does not have are left out."""
    trained = profile.trained
    found: dict[str, float | None] = {
        "params": profile.params,
        "active_params": profile.active_params if profile.active_params != profile.params else None,
        "macs": profile.macs,
        "flops": profile.flops,
        "backward_flops": profile.backward.flops if trained else None,
        "recompute_flops": profile.recompute.flops if trained else None,
        "mfu": profile.mfu,
        "hfu": profile.hfu,
        "samples_per_second": profile.throughput,
        "tokens_per_second": profile.tokens_per_second,
        "activation_bytes": profile.activation_bytes if trained else None,
        "peak_bytes": profile.peak_bytes,
    }
    for phase in PHASES:
        stat = getattr(profile.timing, phase)
        found[f"{phase}_seconds"] = stat.median if stat else None
    return {PREFIX + name: value for name, value in found.items() if value is not None}


def log_profile(profile: Profile, tracker: Any, step: int | None = None) -> None:
    """Write a profile's figures to a tracker, at a step; without one, at the step that was profiled.

    The tracker is anything with `add_scalar(name, value, step)`, as TensorBoard's SummaryWriter, or with
    `log(figures, step=...)`, as a W&B run, or with `log_metrics(figures, step=...)`, as MLflow and Lightning's loggers.
    """
    figures = scalars(profile)
    step = profile.step if step is None else step
    if callable(getattr(tracker, "add_scalar", None)):
        for name, value in figures.items():
            tracker.add_scalar(name, value, step)
        return
    for method in ("log", "log_metrics"):
        if callable(getattr(tracker, method, None)):
            getattr(tracker, method)(figures, step=step)
            return
    raise InputError(
        f"{type(tracker).__name__} is no tracker that we know: it has neither add_scalar(name, value, step) nor "
        f"log(figures, step=...)."
    )
