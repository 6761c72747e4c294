"""The figures of a profile that can be compared or budgeted, by name: one table for `compare`, `budget` and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .. import units
from ..errors import InputError, did_you_mean
from ..results.profile import Profile
from ..results.timings import Stat


@dataclass(frozen=True)
class Figure:
    """One figure of a whole profile."""

    name: str
    read: Callable[[Profile], float | None]
    """The value, or None where the profile does not have it."""
    text: Callable[[float], str]
    parse: Callable[[str | float], float]
    is_time: bool = False
    """Whether it was measured with a clock: it depends on the machine and is never the same twice."""
    more_is_better: bool = False


def _seconds(name: str) -> Callable[[Profile], float | None]:
    def read(profile: Profile) -> float | None:
        stat: Stat | None = getattr(profile.timing, name)
        return stat.median if stat else None

    return read


def _count(name: str, read: Callable[[Profile], float | None]) -> Figure:
    return Figure(name, read, units.si, units.parse_quantity)


def _bytes(name: str, read: Callable[[Profile], float | None]) -> Figure:
    return Figure(name, read, units.size, units.parse_quantity)


def _time(name: str, phase: str) -> Figure:
    return Figure(name, _seconds(phase), units.seconds, units.parse_time, is_time=True)


FIGURES = {
    figure.name: figure
    for figure in (
        _count("params", lambda profile: profile.params),
        _count("active_params", lambda profile: profile.active_params),
        _count("trainable_params", lambda profile: profile.trainable_params),
        _count("macs", lambda profile: profile.macs),
        _count("flops", lambda profile: profile.flops),
        _count("backward_flops", lambda profile: profile.backward.flops if profile.trained else None),
        _count("recompute_flops", lambda profile: profile.recompute.flops if profile.trained else None),
        _count("optimizer_flops", lambda profile: profile.optimizer.flops if profile.trained else None),
        _bytes("bytes", lambda profile: profile.forward.bytes),
        _bytes("param_bytes", lambda profile: profile.root.param_bytes),
        _bytes("activation_bytes", lambda profile: profile.activation_bytes),
        _bytes("peak_bytes", lambda profile: profile.peak_bytes),
        _count("unknown_calls", lambda profile: profile.coverage.unknown_calls),
        _time("latency", "forward"),
        _time("backward_latency", "backward"),
        _time("step_latency", "step"),
        Figure("throughput", lambda profile: profile.throughput, units.si, units.parse_quantity, is_time=True, more_is_better=True),
    )
}  # fmt: skip


def figure(name: str, known: Iterable[str] = FIGURES) -> Figure:
    """The figure of that name, or one sentence that names those there are."""
    if name not in FIGURES:
        raise InputError(f"There is no figure {name!r}.{did_you_mean(name, known)} Figures: {', '.join(known)}.")
    return FIGURES[name]
