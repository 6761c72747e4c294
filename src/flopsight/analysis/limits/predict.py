"""A predicted latency: every op's limit over the share that its kind reaches on this machine. A prediction, never a measurement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...hardware.efficiency import share_reached
from ...hardware.host_calls import BACKWARD as BACKWARD_OP
from ...hardware.host_calls import MODULE, OP, VIEW, host_kind
from ...hardware.op_families import BROADER, POINTWISE, family
from ...results.ceilings import Ceilings
from ...results.costs import OpRow
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import BACKWARD, FORWARD, OPTIMIZER, RECOMPUTE
from .roofline import COLLECTIVES, ceilings_for, row_roof
from .utilization import rows_of

PASSES = ((FORWARD,), (BACKWARD, RECOMPUTE), (OPTIMIZER,))
"""Phases that run one after the other; backward goes through the modules from the last to the first."""


@dataclass(frozen=True)
class Prediction:
    """Seconds of one step, and the two that it comes from."""

    step: float
    kernels: float
    """All kernels, one after the other."""
    host: float
    """The host's calls and the Python around them, one after the other."""


@dataclass(frozen=True)
class Stretch:
    """Calls of the same kind, one after the other: how many, and what each takes the host and the device."""

    calls: int
    host: float
    kernel: float


def predict(profile: Profile, ceilings: Ceilings | None = None) -> Prediction | None:
    """What a step takes by limits and measured efficiencies; None if those were not measured.

    On a device the host hands over kernels in the order of the modules, and a kernel begins when it was handed over and the one
    before it is done. On a CPU calls and kernels take turns.
    """
    ceilings = ceilings or ceilings_for(profile)
    if ceilings is None or not ceilings.efficiency:
        return None
    if any(
        row_roof(row, ceilings, profile.environment.dtype) is None for node in profile.walk() for row in rows_of(node)
    ):
        return None
    stretches = list(_stretches(profile, ceilings))
    kernels = sum(each.calls * each.kernel for each in stretches)
    host = sum(each.calls * each.host for each in stretches)
    on_cpu = profile.environment.device in ("", "cpu")
    return Prediction(kernels + host if on_cpu else _on_device(stretches), kernels, host)


def _on_device(stretches: list[Stretch]) -> float:
    """When the last kernel ends: the host runs ahead of the device, or the device waits for it."""
    handed = done = 0.0
    for each in stretches:
        # of equal calls either the first waits longest, or the last
        begun = max(done, handed + each.host)
        handed += each.calls * each.host
        done = max(begun + each.calls * each.kernel, handed + each.kernel)
    return done


def _stretches(profile: Profile, ceilings: Ceilings) -> Iterator[Stretch]:
    """The step's calls, module by module."""
    nodes = list(profile.walk())
    rows = sum(row.calls for node in nodes for row in node.ops)
    views = max(0, profile.coverage.calls - rows) / rows if rows else 0.0  # only ops that do some work have rows
    for phases in PASSES:
        for node in reversed(nodes) if BACKWARD in phases else nodes:
            yield from _of_module(node, phases, profile, ceilings, views * ceilings.host.get(VIEW, 0.0))


def _of_module(
    node: Node, phases: tuple[str, ...], profile: Profile, ceilings: Ceilings, views: float
) -> Iterator[Stretch]:
    """A module's own calls; `views` is what those between two other ops take the host."""
    prices = ceilings.host
    if FORWARD in phases and node.calls:
        yield Stretch(node.calls, prices.get(MODULE, 0.0), 0.0)
    for row in rows_of(node, phases):
        plain = prices.get(OP, 0.0)
        kind = BACKWARD_OP if row.phase == BACKWARD else host_kind(row.op)
        yield Stretch(
            row.calls, prices.get(kind, plain) + views, kernel_seconds(row, ceilings, profile.environment.dtype)
        )


def kernel_seconds(row: OpRow, ceilings: Ceilings, dtype: str) -> float:
    """One call of an op: its limit over the efficiency of its kind, and no less than the shortest kernel."""
    roof = row_roof(row, ceilings, dtype)
    if roof is None or not row.calls or row.op.startswith(COLLECTIVES) or not (row.cost.bytes or row.cost.macs):
        return 0.0
    limit = roof.limit / row.calls
    kind = family(row, by_compute=roof.compute >= roof.memory)
    points = next((ceilings.efficiency[each] for each in _broader(kind) if each in ceilings.efficiency), ((1.0, 1.0),))
    return max(limit / share_reached(points, limit), ceilings.shortest_kernel or 0.0)


def _broader(kind: str) -> Iterator[str]:
    """The kind, those that stand in for it, and at last pointwise work."""
    known: str | None = kind
    while known is not None:
        yield known
        known = BROADER.get(known)
    yield POINTWISE
