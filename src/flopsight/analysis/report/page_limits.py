"""The data of the report page on limits: the least time of every module, what binds it, the roofline, the findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import units
from ...results.ceilings import Ceilings, peak_key, unit_name
from ...results.costs import FREE, Cost, known_sum
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import BACKWARD, OUTSIDE
from ..figures import Figure, own_seconds
from ..findings import Finding, findings
from ..folding import fold
from ..limits.roofline import (
    ABOVE,
    LAUNCH,
    NO_ROOF,
    Roof,
    binding,
    ceilings_for,
    compulsory_bytes,
    fits_cache,
    roof_of,
    waits_for_host,
)
from ..limits.utilization import lasting, rows_of, unit_of
from .page_data import Stacks
from .page_step import DATA, UPDATE, Step, step_of


def limits(profile: Profile, step: Step, device: str | None = None, *, folded: bool = True) -> dict[str, Any]:
    """What the page shows of the limits of the profile's device or a named one; nothing if no ceilings are known."""
    ceilings, nodes = ceilings_for(profile, device), step.nodes
    roofs = _roofs(profile, step, ceilings) if ceilings is not None else None
    found: dict[str, Any] = {"findings": _findings(profile, Stacks(step.root, folded=folded), device)}
    if ceilings is None or roofs is None:
        return found
    here = profile if device is None else None
    points = list((fold(profile.root) if folded else profile.root).walk())
    return found | {
        "name": ceilings.name,
        "roofs": roofs,
        "bound": [_bound(here, node, roof, ceilings) for node, roof in zip(nodes, roofs, strict=True)],
        "roofline": roofline_points(profile, points, ceilings, timed=device is None),
    }


def limit_figure(step: Step, roofs: Sequence[Roof], name: str = "") -> Figure:
    """The least time of a subtree, over the phases that its time covers; `name` is that of a device that is not here."""
    by_path = {node.path: roof.limit for node, roof in zip(step.nodes, roofs, strict=True)}
    label = f"limit on {name}" if name else "limit"
    about = f"the least time that {name or 'the device'} needs for the same work and phases, unfused"
    return Figure("limit", label, "seconds", about, of_node=lambda node: by_path[node.path], views="page open")


BOUND_WORDS = {"depends on fusion": "compute- or memory-bound, which depends on fusion"}


def limit_sentence(profile: Profile, step: Step, found: dict[str, Any], device: str | None = None) -> str:
    """What binds the whole, and how near its time is to the limit: the end of the verdict."""
    if not found.get("roofs"):
        return ""
    bound, limit = found["bound"][0], found["roofs"][0].limit
    parts = [BOUND_WORDS.get(bound, f"{bound}-bound")] if bound else []
    seconds = step.whole if device is None else None
    if device is not None and limit:
        parts.append(f"at least {lasting(profile, limit)} on {found['name']}")
    elif seconds and limit:
        what = unit_of(profile) if step.word == "step" or not profile.trained else step.word
        faster = limit > ABOVE * seconds
        parts.append(
            f"the {what} {'faster than its limit' if faster else f'at {min(1.0, limit / seconds):.0%} of its limit'}"
        )
    return ", ".join(parts)


def _roofs(profile: Profile, step: Step, ceilings: Ceilings) -> list[Roof] | None:
    """The roof of every subtree, each op looked at once; None if a peak is missing.

    A module's covers what its time covers; the work of a phase that is timed apart stands in the row of that time.
    """
    dtype, nodes = profile.environment.dtype, step.nodes
    own = {node.path: roof_of(node, ceilings, dtype=dtype, phases=step.by_module, own=True) for node in nodes}
    apart = {
        path: [
            roof_of(node, ceilings, dtype=dtype, phases=phases, own=True)
            for node in nodes
            if any(getattr(node.own, phase) != FREE for phase in phases)
        ]
        for path, phases in step.apart.items()
    }
    found: dict[str, Roof] = {}
    for node in reversed(nodes):  # children before parents
        mine = [own[node.path], *apart.get(node.path, ())]
        parts = [*mine, *(found[child.path] for child in node.children)]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        found[node.path] = sum(known, start=NO_ROOF)
    return [found[node.path] for node in nodes]


def _bound(here: Profile | None, node: Node, roof: Roof, ceilings: Ceilings) -> str:
    """What binds a module; `here` is its profile if the limits are those of the device that it ran on."""
    if roof == NO_ROOF:
        return ""
    return LAUNCH if here is not None and waits_for_host(node, here) else binding(roof, node, ceilings) or ""


def roofline_points(
    profile: Profile, nodes: Sequence[Node], ceilings: Ceilings, *, timed: bool
) -> dict[str, Any] | None:
    """A roof for each kind of unit that ran, and a point for every module that computes something itself.

    A point has its rate if the times are the device's, and the peak of the unit that does most of its work; both are over
    the phases that were timed by module.
    """
    if not (ceilings.bandwidth and ceilings.flops):
        return None
    phases = step_of(profile).by_module
    found = [
        (number, node, sum((getattr(node.own, phase) for phase in phases), start=FREE))
        for number, node in enumerate(nodes)
    ]
    used = {number: _units(node, ceilings, profile.environment.dtype, phases) for number, node, _ in found}
    points = [
        {"module": number, **_point(profile, node, work, used[number], ceilings, phases, timed=timed)}
        for number, node, work in found
        if work.flops and work.bytes and node.path != OUTSIDE  # what runs outside of modules has no clock of its own
    ]
    ran = dict.fromkeys(key for keys in used.values() for key in keys)
    if not (points and ran):
        return None
    peaks = [{"name": unit_name(ceilings.flops, key), "flops": ceilings.flops[key]} for key in ran]
    name = f"{ceilings.name} ({ceilings.source})"
    return {
        "device": name, "bandwidth": ceilings.bandwidth, "cache": ceilings.cache, "cacheBandwidth": ceilings.cache_bandwidth,
        "peaks": peaks, "points": points,
    }  # fmt: skip


def _point(
    profile: Profile,
    node: Node,
    work: Cost,
    used: Sequence[str],
    ceilings: Ceilings,
    phases: Sequence[str],
    *,
    timed: bool,
) -> dict[str, Any]:
    parts = ("latency", "backward_latency") if BACKWARD in phases else ("latency",)
    seconds = known_sum(own_seconds(node, part) for part in parts) if timed else None
    least = min(work.bytes, max(1, compulsory_bytes(node, phases))) if not node.children else work.bytes
    roof = roof_of(node, ceilings, dtype=profile.environment.dtype, phases=phases, own=True) or NO_ROOF
    point = {
        "path": node.path, "kind": node.kind, "low": work.flops / work.bytes, "high": work.flops / least,
        "rate": work.flops / seconds if seconds else None, "seconds": seconds or None, "limit": roof.limit or None,
        "bound": _bound(profile if timed else None, node, roof, ceilings),
        "peak": ceilings.flops[used[0]] if used else None, "unit": unit_name(ceilings.flops, used[0]) if used else "",
    }  # fmt: skip
    cached = fits_cache(node, ceilings, profile.root.param_bytes)
    return point | {"above": _why_above(point, ceilings, cached=cached, masked=bool(work.skipped_macs))}


def _why_above(point: dict[str, Any], ceilings: Ceilings, *, cached: bool, masked: bool) -> str:
    """Why a point stands above its roof; empty if it does not."""
    peak, bandwidth = point["peak"] or max(ceilings.flops.values()), ceilings.bandwidth or 0.0
    rate = (point["rate"] or 0.0) / ABOVE
    if rate <= min(peak, point["low"] * bandwidth):
        return ""
    if rate > peak:
        dense = "attention counts dense, and its kernel skips the masked half"
        return dense if masked else "it is faster than the peak listed here"
    if rate <= point["high"] * bandwidth:
        return "fused kernels move fewer bytes than its ops one by one"
    if cached:
        return f"its data fits the cache of {units.size(ceilings.cache or 0)}, which is faster than memory"
    return "it moves fewer bytes than its ops read and write: a cache or a fused kernel holds them"


def _units(node: Node, ceilings: Ceilings, dtype: str, phases: Sequence[str]) -> list[str]:
    """The keys of the peaks that a module's own products run at, most work first."""
    rows = [row for row in rows_of(node, phases) if row.cost.macs]
    rows.sort(key=lambda row: -row.cost.macs)
    keys = dict.fromkeys(peak_key(ceilings.flops, row.dtype or dtype, row.op) for row in rows)
    return [key for key in keys if key in ceilings.flops]


def _findings(profile: Profile, stacks: Stacks, device: str | None) -> list[dict[str, Any]] | None:
    found = findings(profile, device)
    if not found:
        return None
    return [
        {"title": one.what, "text": f"{one.evidence}; {one.verdict}", "next": one.next_move, "seconds": one.seconds or None,
         "share": one.share or None, "modules": _places(one, stacks)}
        for one in found
    ]  # fmt: skip


def _places(one: Finding, stacks: Stacks) -> list[str]:
    """The rows that a finding leads to: those of its modules, or the step's row of what it is about."""
    row = {"optimizer": UPDATE, "data": DATA}.get(one.name, "")
    where = (row,) if row and row in stacks.row else one.where
    return list(dict.fromkeys(stacks.row[path] for path in where if path in stacks.row))
