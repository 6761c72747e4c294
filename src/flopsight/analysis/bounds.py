"""Rows of the view that holds every module against its limit: plain data that the renderer draws."""

from __future__ import annotations

from dataclasses import dataclass

from ..ceilings import Ceilings
from ..costs import OpRow
from ..hardware.op_families import ATTENTION, family
from ..records import BACKWARD, FORWARD, OUTSIDE, RECOMPUTE
from ..tree import Node, Profile
from .merging import known_sum
from .roofline import LAUNCH, bound_by, fits_cache, fused_limit, roof_of, row_roof, waits_for_host
from .tables import TableRow, tree_rows, with_depths

TIMED = (FORWARD, BACKWARD, RECOMPUTE)
"""Phases whose time is known by module; an optimizer's step is timed as a whole."""


@dataclass(frozen=True)
class BoundRow:
    """One module, or the attention inside one, against its limit; the optimizer's work is not in it."""

    row: TableRow
    seconds: float | None
    """Measured: forward and backward, on a device those of its kernels."""
    limit: float | None
    fused: float | None
    """The limit if the module moved nothing but its inputs, parameters and outputs."""
    bound: str | None
    intensity: float | None
    rate: float | None
    """FLOP/s achieved."""
    cached: bool = False
    """No op of the module itself moves more than the cache holds."""
    attention: bool = False
    """The row is the attention in the module above it."""

    @property
    def share(self) -> float | None:
        """How much of the time the limit is."""
        return self.limit / self.seconds if self.limit is not None and self.seconds else None

    @property
    def win(self) -> float | None:
        """Seconds above the limit."""
        if self.limit is None or self.seconds is None:
            return None
        return max(0.0, self.seconds - self.limit)


def bound_rows(root: Node, profile: Profile, ceilings: Ceilings, *, timed: bool = True) -> list[BoundRow]:
    """Every node of a view in the order of the model; `timed`: with the times of the profile's own device."""
    found: list[BoundRow] = []
    for (node, _, _), row in zip(with_depths(root), tree_rows(root), strict=True):
        if node.path == OUTSIDE and not node.ops and not node.own.total.bytes:
            continue
        found.append(_module(node, row, profile, ceilings, timed=timed))
        found += _attention(node, row, profile, ceilings, timed=timed)
    return found


def _module(node: Node, row: TableRow, profile: Profile, ceilings: Ceilings, *, timed: bool) -> BoundRow:
    dtype = profile.environment.dtype
    roof = roof_of(node, ceilings, dtype=dtype, phases=TIMED)
    seconds = known_sum((node.latency, node.backward_latency)) if timed else None
    bound = bound_by(node, ceilings, dtype=dtype)
    if timed and bound and waits_for_host(node, profile):
        bound = LAUNCH
    return BoundRow(
        row,
        seconds,
        roof.limit if roof else None,
        fused_limit(node, ceilings, dtype=dtype),
        bound,
        node.intensity,
        sum(getattr(node.total, phase).flops for phase in TIMED) / seconds if seconds else None,
        cached=fits_cache(node, ceilings),
    )


def _attention(node: Node, row: TableRow, profile: Profile, ceilings: Ceilings, *, timed: bool) -> list[BoundRow]:
    """A row of its own for attention that runs in a module which does other work too."""
    ops = [op for op in node.ops if op.phase in TIMED and family(op) == ATTENTION]
    if not ops or not (node.children or len(ops) < len(node.ops)):
        return []
    roofs = [row_roof(op, ceilings, profile.environment.dtype) for op in ops]
    known = [roof for roof in roofs if roof is not None]
    limit = sum(roof.limit for roof in known) if len(known) == len(roofs) else None
    seconds = known_sum(op.seconds for op in ops) if timed else None
    flops, moved = sum(op.cost.flops for op in ops), sum(op.cost.bytes for op in ops)
    by_compute = sum(roof.at_peak for roof in known) * 2 >= (limit or 0.0)
    below = TableRow(**{**{name: getattr(row, name) for name in row.__dataclass_fields__}, **_labels(row, ops)})
    bound = None if limit is None else "compute" if by_compute else "memory"
    intensity = flops / moved if moved else None
    return [
        BoundRow(below, seconds, limit, limit, bound, intensity, flops / seconds if seconds else None, attention=True)
    ]


def _labels(row: TableRow, ops: list[OpRow]) -> dict[str, object]:
    """How the row of an op is called: by the op, one step below its module."""
    name = ops[0].op.rpartition(".")[2].strip("_")
    return {
        "name": "",
        "kind": name,
        "depth": row.depth + 1,
        "calls": 0,
        "mark": "",
        "hidden": 0,
        "unknown": 0,
        "first": False,
    }
