"""Rows of the view that holds every module against its limit: plain data that the renderer draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...hardware.op_families import ATTENTION, family
from ...results.ceilings import Ceilings
from ...results.costs import OpRow, known_sum
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import BACKWARD, FORWARD, OPTIMIZER, OUTSIDE, RECOMPUTE
from ..tables import TableRow, tree_rows, with_depths
from .roofline import (
    ABOVE,
    COMPUTE,
    LAUNCH,
    MEMORY,
    binding,
    fits_cache,
    fused_limit,
    roof_of,
    row_roof,
    waits_for_host,
)

TIMED = (FORWARD, BACKWARD, RECOMPUTE)
"""Phases whose time is known by module; an optimizer's step is timed as a whole and has a row of its own."""


@dataclass(frozen=True)
class BoundRow:
    """One module, the attention inside one, or the optimizer's step, against its limit."""

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
        """How much of the time the limit is, all of it if the time is shorter."""
        return min(1.0, self.limit / self.seconds) if self.limit is not None and self.seconds else None

    @property
    def too_fast(self) -> bool:
        """Whether the time is shorter than the limit, by more than times vary."""
        return bool(self.limit and self.seconds) and (self.limit or 0.0) > ABOVE * (self.seconds or 0.0)

    @property
    def win(self) -> float | None:
        """Seconds above the limit."""
        if self.limit is None or self.seconds is None:
            return None
        return max(0.0, self.seconds - self.limit)


def bound_rows(root: Node, profile: Profile, ceilings: Ceilings, *, timed: bool = True) -> list[BoundRow]:
    """Every node of a view in the order of the model; `timed`: with the times of the profile's own device."""
    found: list[BoundRow] = []
    rows = tree_rows(root)
    for (node, _, _), row in zip(with_depths(root), rows, strict=True):
        if node.path == OUTSIDE and not node.ops and not node.own.total.bytes:
            continue
        found.append(_module(node, row, profile, ceilings, timed=timed))
        ops = [op for op in node.ops if op.phase in TIMED and family(op) == ATTENTION]
        if ops and (node.children or len(ops) < len(node.ops)):
            found.append(_ops(ops, _below(row, _name(ops)), profile, ceilings, timed=timed, attention=True))
    updates = [op for node in root.walk() for op in node.ops if op.phase == OPTIMIZER]
    if updates:
        step = _ops(updates, _below(rows[0], "the optimizer's step"), profile, ceilings, timed=timed)
        whole = profile.timing.optimizer
        # every parameter and its state pass by between two updates
        cached = sum(op.cost.bytes for op in updates) <= (ceilings.cache or 0)
        found.append(replace(step, seconds=whole.median if timed and whole else step.seconds, cached=cached))
    return found


def _module(node: Node, row: TableRow, profile: Profile, ceilings: Ceilings, *, timed: bool) -> BoundRow:
    dtype = profile.environment.dtype
    roof = roof_of(node, ceilings, dtype=dtype, phases=TIMED)
    seconds = known_sum((node.latency, node.backward_latency)) if timed else None
    bound = binding(roof, node, ceilings) if roof else None
    if timed and bound and waits_for_host(node, profile):
        bound = LAUNCH
    flops, moved = (sum(getattr(getattr(node.total, phase), what) for phase in TIMED) for what in ("flops", "bytes"))
    return BoundRow(
        row,
        seconds,
        roof.limit if roof else None,
        fused_limit(node, ceilings, dtype=dtype, phases=TIMED),
        bound,
        flops / moved if moved else None,
        flops / seconds if seconds else None,
        cached=fits_cache(node, ceilings, profile.root.param_bytes),
    )


def _ops(
    ops: Sequence[OpRow], row: TableRow, profile: Profile, ceilings: Ceilings, *, timed: bool, attention: bool = False
) -> BoundRow:
    """Some ops as a row of their own."""
    roofs = [row_roof(op, ceilings, profile.environment.dtype) for op in ops]
    known = [roof for roof in roofs if roof is not None]
    limit = sum(roof.limit for roof in known) if len(known) == len(roofs) else None
    seconds = known_sum(op.seconds for op in ops) if timed else None
    flops, moved = sum(op.cost.flops for op in ops), sum(op.cost.bytes for op in ops)
    by_compute = 2 * sum(roof.at_peak for roof in known) >= (limit or 0.0)
    bound = None if not limit else COMPUTE if by_compute else MEMORY
    intensity, rate = flops / moved if moved else None, flops / seconds if seconds else None
    cached = all(op.cost.bytes <= max(1, op.calls) * (ceilings.cache or 0) for op in ops)
    return BoundRow(row, seconds, limit, limit, bound, intensity, rate, cached=cached, attention=attention)


def _below(row: TableRow, name: str) -> TableRow:
    """The row of some ops, one step below their module."""
    return replace(row, name="", kind=name, depth=row.depth + 1, calls=0, mark="", hidden=0, unknown=0, first=False)


def _name(ops: Sequence[OpRow]) -> str:
    """How attention is called: by its op in forward."""
    op = next((op for op in ops if op.phase == FORWARD), ops[0]).op
    return op.rpartition(".")[2].strip("_").removesuffix("_backward")
