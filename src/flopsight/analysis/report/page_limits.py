"""The data of the report page on limits: the least time of every module, what binds it, the roofline, the findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...results.ceilings import Ceilings, peak_key, unit_name
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import FORWARD
from ..figures import Figure, own_seconds
from ..findings import findings
from ..limits.roofline import (
    ABOVE,
    LAUNCH,
    NO_ROOF,
    Roof,
    binding,
    ceilings_for,
    roof_of,
    rows_of,
    waits_for_host,
)
from ..limits.utilization import lasting, step_seconds, unit_of


def limits(profile: Profile, nodes: Sequence[Node], device: str | None = None) -> dict[str, Any]:
    """What the page shows of the limits of the profile's device or a named one; nothing where no ceilings are known."""
    ceilings = ceilings_for(profile, device)
    roofs = _roofs(profile, nodes, ceilings) if ceilings is not None else None
    if ceilings is None or roofs is None:
        return {"findings": _findings(profile, nodes, device)}
    here = profile if device is None else None
    return {
        "name": ceilings.name,
        "roofs": roofs,
        "bound": [_bound(here, node, roof, ceilings) for node, roof in zip(nodes, roofs, strict=True)],
        "roofline": roofline_points(profile, nodes, ceilings, timed=device is None),
        "findings": _findings(profile, nodes, device),
    }


def limit_figure(nodes: Sequence[Node], roofs: Sequence[Roof]) -> Figure:
    """The least time of a subtree, all phases that ran."""
    by_node = {id(node): roof.limit for node, roof in zip(nodes, roofs, strict=True)}
    about = "the least time that the device needs for all phases that ran, unfused"
    return Figure("limit", "limit", "seconds", about, of_node=lambda node: by_node[id(node)], views="page open")


BOUND_WORDS = {"depends on fusion": "compute- or memory-bound, which depends on fusion"}


def limit_sentence(profile: Profile, found: dict[str, Any], device: str | None = None) -> str:
    """What binds the whole, and how near its time is to the limit: the end of the verdict."""
    if not found.get("roofs"):
        return ""
    bound, limit = found["bound"][0], found["roofs"][0].limit
    parts = [BOUND_WORDS.get(bound, f"{bound}-bound")] if bound else []
    seconds = step_seconds(profile) if device is None else None
    if device is not None and limit:
        parts.append(f"at least {lasting(profile, limit)} on {found['name']}")
    elif seconds and limit:
        what = unit_of(profile)
        faster = limit > ABOVE * seconds
        parts.append(
            f"the {what} {'faster than its limit' if faster else f'at {min(1.0, limit / seconds):.0%} of its limit'}"
        )
    return ", ".join(parts)


def _roofs(profile: Profile, nodes: Sequence[Node], ceilings: Ceilings) -> list[Roof] | None:
    """The roof of every subtree, each op looked at once; None if a peak is missing."""
    dtype = profile.environment.dtype
    found: dict[int, Roof] = {}
    for node in reversed(nodes):  # children before parents
        own = roof_of(node, ceilings, dtype=dtype, own=True)
        if own is None:
            return None
        found[id(node)] = sum((found[id(child)] for child in node.children), start=own)
    return [found[id(node)] for node in nodes]


def _bound(here: Profile | None, node: Node, roof: Roof, ceilings: Ceilings) -> str:
    """What binds a module; `here` is its profile where the limits are those of the device that it ran on."""
    if roof == NO_ROOF:
        return ""
    return LAUNCH if here is not None and waits_for_host(node, here) else binding(roof, node, ceilings) or ""


def roofline_points(
    profile: Profile, nodes: Sequence[Node], ceilings: Ceilings, *, timed: bool
) -> dict[str, Any] | None:
    """A roof for each kind of unit that ran, and a point for every module that computes something itself.

    A point has its rate if the times are the device's, and the peak of the unit that does most of its work.
    """
    if not (ceilings.bandwidth and ceilings.flops):
        return None
    points, ran = [], dict[str, None]()
    for number, node in enumerate(nodes):
        own = node.own.forward
        if not (own.macs and own.bytes):
            continue
        seconds = own_seconds(node) if timed else None
        least = min(own.bytes, max(1, node.compulsory_bytes)) if not node.children else own.bytes
        used = _units(node, ceilings, profile.environment.dtype)
        ran |= dict.fromkeys(used)
        points.append({
            "module": number, "low": own.flops / own.bytes, "high": own.flops / least,
            "rate": own.flops / seconds if seconds else None, "seconds": seconds, "peak": ceilings.flops[used[0]] if used else None,
        })  # fmt: skip
    if not points:
        return None
    peaks = [{"name": unit_name(ceilings.flops, key), "flops": ceilings.flops[key]} for key in ran or ceilings.flops]
    name = f"{ceilings.name} ({ceilings.source})"
    return {"device": name, "bandwidth": ceilings.bandwidth, "peaks": peaks, "points": points}


def _units(node: Node, ceilings: Ceilings, dtype: str) -> list[str]:
    """The keys of the peaks that a module's own products run at, most work first."""
    rows = [row for row in rows_of(node, (FORWARD,)) if row.cost.macs]
    rows.sort(key=lambda row: -row.cost.macs)
    keys = dict.fromkeys(peak_key(ceilings.flops, row.dtype or dtype, row.op) for row in rows)
    return [key for key in keys if key in ceilings.flops]


def _findings(profile: Profile, nodes: Sequence[Node], device: str | None) -> list[dict[str, Any]] | None:
    found = findings(profile, device)
    if not found:
        return None
    place = {node.path: number for number, node in enumerate(nodes)}
    return [
        {"title": one.what, "text": f"{one.evidence}; {one.verdict}", "next": one.next_move, "seconds": one.seconds or None,
         "share": one.share or None, "modules": [place[path] for path in one.where if path in place]}
        for one in found
    ]  # fmt: skip
