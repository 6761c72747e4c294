"""A profile's figures as scalars in an experiment tracker: TensorBoard, W&B, or whatever takes a name and a number."""

from __future__ import annotations

from typing import Any

from ..analysis.figures import Figure, shown
from ..errors import InputError
from ..results.profile import Profile
from ..results.run import PREFIX


def scalars(profile: Profile) -> dict[str, float]:
    """The figures by name, like `flopsight/mfu`; those that the profile does not have are left out."""
    found = {PREFIX + _name(figure): figure.telling(profile) for figure in shown("log")}
    return {name: value for name, value in found.items() if value is not None}


def _name(figure: Figure) -> str:
    """What trackers call a figure: a time by its phase, `forward_seconds`."""
    if figure.unit == "seconds":
        return f"{figure.key.removesuffix('latency').strip('_') or 'forward'}_seconds"
    return "samples_per_second" if figure.key == "throughput" else figure.key


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
        f"{type(tracker).__name__} is not a tracker that we know: it has neither add_scalar(name, value, step) nor "
        f"log(figures, step=...)."
    )
