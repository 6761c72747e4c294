"""The least time that a device needs: for every op the larger of its work at the peak and its bytes at full bandwidth.

The sum adds up over the tree. Work is two FLOPs for every MAC that a kernel has to do (what a causal mask hides is left
out) at the peak of the op's dtype; pointwise arithmetic is never what binds, so it counts by its bytes. Bytes are unfused:
every op reads its inputs and writes its outputs. Perfect fusion moves a module's inputs, parameters and outputs alone;
if the two disagree on what binds, the answer "depends on fusion".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from operator import add

from ...hardware.named import ceilings_from, named_ceilings
from ...hardware.peaks import Device, lookup
from ...results.ceilings import Ceilings, Conditions
from ...results.costs import OpRow
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import BACKWARD, PHASES, RECOMPUTE
from ..folding import times
from .utilization import rows_of, step_seconds

COMPUTE, MEMORY, LAUNCH = "compute", "memory", "launch"
COMMUNICATION, FUSION = "communication", "depends on fusion"
COLLECTIVES = ("c10d.", "_c10d_functional.", "_c10d_functional_autograd.")
ABOVE = 1.05
"""Limit over time from which on something is faster than its limit allows: times vary."""
MOSTLY_IDLE = 0.5
"""Share of the time without a kernel from which on launches bind."""


@dataclass(frozen=True, slots=True)
class Roof:
    """Seconds that a device needs at least, by what they go to. Adds up."""

    limit: float = 0.0
    """The larger of compute and memory, op by op."""
    compute: float = 0.0
    """All matrix work at the peak of its dtype."""
    memory: float = 0.0
    """All bytes at full bandwidth, unfused."""
    at_peak: float = 0.0
    """The part of `limit` in ops that compute binds."""
    link: float = 0.0
    """What collectives send, over the link to a peer."""

    def __add__(self, other: Roof) -> Roof:
        """Both, one after the other."""
        return Roof(*map(add, astuple(self), astuple(other)))


NO_ROOF = Roof()
UNKNOWN = Conditions()
"""Of a node that is not part of a profile."""


def profile_limit(profile: Profile, device: str | None = None) -> float | None:
    """The least seconds of one step."""
    return node_limit(profile.root, device)


def node_limit(node: Node, device: str | None = None) -> float | None:
    """The least seconds of a subtree's work."""
    known = node.conditions or UNKNOWN
    ceilings = ceilings_for(known, device)
    roof = roof_of(node, ceilings, dtype=known.dtype) if ceilings else None
    return roof.limit if roof else None


def node_bound(node: Node, device: str | None = None) -> str | None:
    """What holds a subtree back on a device; None if it does nothing or a peak is not known."""
    known = node.conditions or UNKNOWN
    ceilings = ceilings_for(known, device)
    if ceilings is None:
        return None
    if device is None and waits_for_host(node, known):
        return LAUNCH
    return bound_by(node, ceilings, dtype=known.dtype)


def ceilings_for(profile: Profile | Conditions, device: str | None = None) -> Ceilings | None:
    """The named device's datasheet, or what the profile was made on: as measured, else by its name."""
    known = profile if isinstance(profile, Conditions) else profile.conditions
    if device is not None:
        return named_ceilings(device, tf32_products="tf32" in known.peak_flops)
    if known.ceilings is not None:
        return known.ceilings
    row = lookup(known.device_name) if known.device_name else None
    return ceilings_from(row, dict(known.peak_flops)) if isinstance(row, Device) and known.peak_flops else None


def roof_of(
    node: Node, ceilings: Ceilings, *, dtype: str = "", phases: Iterable[str] = PHASES, own: bool = False
) -> Roof | None:
    """A subtree's roof, or that of a module's own work; None if a peak that it takes is not known."""
    wanted = tuple(phases)
    limit = compute = memory = at_peak = link = 0.0  # plain sums: a large model has a hundred thousand op rows
    for each in (node,) if own else node.walk():
        for row in rows_of(each, wanted):
            roof = row_roof(row, ceilings, dtype)
            if roof is None:
                return None
            limit += roof.limit
            compute += roof.compute
            memory += roof.memory
            at_peak += roof.at_peak
        if each.comm:
            sent = sum(row.wire_bytes for row in each.comm if row.phase in wanted and not row.setup)
            link += sent / ceilings.link if ceilings.link else 0.0
    return Roof(limit, compute, memory, at_peak, link)


def row_roof(row: OpRow, ceilings: Ceilings, dtype: str = "") -> Roof | None:
    """The roof of all calls of an op; `dtype` is that of an op whose own was not recorded."""
    if row.op.startswith(COLLECTIVES):
        return NO_ROOF  # what it hands over goes over the link, see `Node.comm`
    compute = 0.0
    if row.cost.causal_macs:
        peak = ceilings.peak(row.dtype or dtype, row.op)
        if not peak:
            return None
        compute = 2 * row.cost.causal_macs / peak
    if row.cost.bytes and not ceilings.bandwidth:
        return None
    memory = row.cost.bytes / ceilings.bandwidth if ceilings.bandwidth else 0.0
    return Roof(max(compute, memory), compute, memory, compute if compute >= memory else 0.0)


def fused_limit(node: Node, ceilings: Ceilings, *, dtype: str = "", phases: Iterable[str] = PHASES) -> float | None:
    """The least seconds if a subtree moved nothing but its inputs, parameters and outputs.

    What is never called itself, a list of modules or what runs outside of all, has no ends: it takes what its parts take.
    """
    wanted = tuple(phases)
    if not node.calls:
        own = roof_of(node, ceilings, dtype=dtype, phases=wanted, own=True)
        parts = [fused_limit(child, ceilings, dtype=dtype, phases=wanted) for child in node.children]
        known = [part for part in parts if part is not None]
        return None if own is None or len(known) < len(parts) else own.limit + sum(known)
    roof = roof_of(node, ceilings, dtype=dtype, phases=wanted)
    if roof is None or not ceilings.bandwidth:
        return None
    return min(roof.limit, max(roof.compute, compulsory_bytes(node) / ceilings.bandwidth))


def compulsory_bytes(node: Node, phases: Iterable[str] = PHASES) -> int:
    """Inputs, parameters and outputs of every call; backward moves each of them and its gradient."""
    each = max(1, node.calls // times(node))
    work = node.total
    passes = (
        1 + 2 * bool(BACKWARD in phases and work.backward.bytes) + bool(RECOMPUTE in phases and work.recompute.bytes)
    )
    return each * passes * node.compulsory_bytes


def bound_by(node: Node, ceilings: Ceilings, *, dtype: str = "") -> str | None:
    """Compute, memory, communication, or what fusion decides; launches are seen in time alone."""
    roof = roof_of(node, ceilings, dtype=dtype)
    return binding(roof, node, ceilings) if roof is not None else None


def binding(roof: Roof, node: Node, ceilings: Ceilings) -> str | None:
    """The same for a subtree whose roof is known already."""
    if not (roof.limit or roof.link):
        return None
    if roof.link > roof.limit:
        return COMMUNICATION
    unfused = COMPUTE if 2 * roof.at_peak >= roof.limit else MEMORY
    if not ceilings.bandwidth:
        return unfused
    fused = COMPUTE if roof.compute and roof.compute >= compulsory_bytes(node) / ceilings.bandwidth else MEMORY
    # more bytes cannot turn work that memory binds into work that compute binds
    return unfused if unfused in (fused, COMPUTE) else FUSION


def waits_for_host(node: Node, profile: Profile | Conditions) -> bool:
    """Whether the device had no kernel to run for most of the time: launches bind."""
    if not node.path:
        busy, whole = device_seconds(profile), step_seconds(profile)
        return busy is not None and whole is not None and whole - busy > MOSTLY_IDLE * whole
    return node.idle is not None and bool(node.stream_latency) and node.idle > MOSTLY_IDLE * (node.stream_latency or 0)


def device_seconds(profile: Profile | Conditions) -> float | None:
    """Seconds in which kernels ran, of one step; None if no device was traced."""
    timing = profile.timing
    if timing.busy is None:
        return None
    if not profile.trained:
        wall = timing.forward.median if timing.forward else None
        # kernels that run side by side count once: the wall less the time without any
        return wall - timing.idle if wall is not None and timing.idle is not None else timing.busy
    return timing.busy + (timing.backward_busy or 0.0) + (timing.optimizer_busy or 0.0)


def fits_cache(node: Node, ceilings: Ceilings, all_weights: int = 0) -> bool:
    """Whether no op of a module itself moves more in a call than the cache holds: memory then sets no limit.

    Weights are read once a step. If those of the whole model, `all_weights` bytes, do not fit, others have evicted them by then.
    """
    cache = ceilings.cache or 0
    largest = max((row.cost.bytes / max(1, row.calls) for row in node.ops if row.cost.bytes), default=0.0)
    evicted = all_weights > cache and 2 * sum(parameter.nbytes for parameter in node.parameters) > largest
    return 0 < largest <= cache and not evicted
