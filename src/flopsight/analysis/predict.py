"""A predicted latency: every op's limit over the share that its kind reaches on this machine. A prediction, never a measurement."""

from __future__ import annotations

from ..ceilings import Ceilings
from ..costs import OpRow
from ..hardware.efficiency import POINTWISE, family, share_reached
from ..records import PHASES
from ..tree import Profile
from .roofline import COLLECTIVES, ceilings_for, row_roof, rows_of


def predict(profile: Profile, ceilings: Ceilings | None = None) -> float | None:
    """Seconds of one step, predicted from limits and measured efficiencies; None where those were not measured.

    On a device the slower of two counts: its kernels, or the host that hands them over. On a CPU they are one after the other.
    """
    ceilings = ceilings or ceilings_for(profile)
    if ceilings is None or not ceilings.efficiency:
        return None
    kernels = 0.0
    for node in profile.walk():
        for row in rows_of(node, PHASES):
            seconds = _row_seconds(row, ceilings, profile.environment.dtype)
            if seconds is None:
                return None
            kernels += seconds
    host = host_seconds(profile, ceilings)
    on_cpu = profile.environment.device in ("", "cpu")
    return kernels + host if on_cpu else max(kernels, host)


def host_seconds(profile: Profile, ceilings: Ceilings) -> float:
    """What handing over every op call takes the host: views launch nothing, convolutions look up a plan first."""
    call, seen = ceilings.host_call or 0.0, profile.coverage
    total = 0.0
    for calls in (seen.counted, seen.free):
        for op, number in calls.items():
            price = ceilings.host_convolution if "conv" in op else ceilings.host_view if op in VIEWS else call
            total += number * (call if price is None else price)
    return total + seen.unknown_calls * call


VIEWS = frozenset(
    f"aten.{name}"
    for name in [
        "view",
        "_unsafe_view",
        "t",
        "transpose",
        "permute",
        "expand",
        "slice",
        "select",
        "unsqueeze",
        "squeeze",
        "unbind",
        "split",
        "alias",
        "detach",
        "as_strided",
        "split_with_sizes",
        "_reshape_alias",
        "movedim",
        "unfold",
        "narrow",
        "chunk",
        "lift_fresh",
        "empty",
        "empty_like",
        "empty_strided",
    ]
)
"""Ops that only describe memory anew."""


def _row_seconds(row: OpRow, ceilings: Ceilings, dtype: str) -> float | None:
    """All calls of an op: each takes its limit over the efficiency, and no less than the shortest kernel."""
    roof = row_roof(row, ceilings, dtype)
    if roof is None:
        return None
    if not row.calls or row.op.startswith(COLLECTIVES) or not (row.cost.bytes or row.cost.macs):
        return 0.0
    each = roof.limit / row.calls
    points = ceilings.efficiency.get(family(row, by_compute=roof.compute >= roof.memory))
    points = points or ceilings.efficiency.get(POINTWISE) or ((1.0, 1.0),)
    return row.calls * max(each / share_reached(points, each), ceilings.shortest_kernel or 0.0)
