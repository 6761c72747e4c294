"""The data of the report page on limits: the least time of every module, what binds it, the roofline, the findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ceilings import Ceilings
from ..records import FORWARD
from ..tree import Node, Profile
from .findings import findings
from .report import Metric
from .roofline import LAUNCH, NO_ROOF, Roof, binding, ceilings_for, roof_of, waits_for_host
from .tables import own_latencies
from .utilization import step_seconds


def limits(profile: Profile, nodes: Sequence[Node]) -> dict[str, Any]:
    """What the page shows of a device's limits; nothing where the device's ceilings are not known."""
    ceilings = ceilings_for(profile)
    roofs = _roofs(profile, nodes, ceilings) if ceilings is not None else None
    if ceilings is None or roofs is None:
        return {"findings": _findings(profile, nodes)}
    return {
        "roofs": roofs,
        "bound": [_bound(profile, node, roof, ceilings) for node, roof in zip(nodes, roofs, strict=True)],
        "roofline": _roofline(nodes, ceilings),
        "findings": _findings(profile, nodes),
    }


def limit_metric(nodes: Sequence[Node], roofs: Sequence[Roof]) -> Metric:
    """The least time of a subtree, all phases that ran."""
    by_node = {id(node): roof.limit for node, roof in zip(nodes, roofs, strict=True)}
    return Metric("limit", "limit", "seconds", "The least time that the device needs for all phases that ran, unfused",
                  lambda node: by_node[id(node)])  # fmt: skip


def limit_sentence(profile: Profile, found: dict[str, Any]) -> str:
    """What binds the whole, and how much of its time the limit is: the end of the verdict."""
    if not found.get("roofs"):
        return ""
    bound, limit, seconds = found["bound"][0], found["roofs"][0].limit, step_seconds(profile)
    share = f", {limit / seconds:.0%} of the limit" if seconds and limit else ""
    return f"{f'bound by {bound}' if bound else ''}{share}".removeprefix(", ")


def _roofs(profile: Profile, nodes: Sequence[Node], ceilings: Ceilings) -> list[Roof] | None:
    """The roof of every subtree, each op looked at once; None where a peak is missing."""
    dtype = profile.environment.dtype
    found: dict[int, Roof] = {}
    for node in reversed(nodes):  # children before parents
        own = roof_of(node, ceilings, dtype=dtype, own=True)
        if own is None:
            return None
        found[id(node)] = sum((found[id(child)] for child in node.children), start=own)
    return [found[id(node)] for node in nodes]


def _bound(profile: Profile, node: Node, roof: Roof, ceilings: Ceilings) -> str:
    if roof == NO_ROOF:
        return ""
    return LAUNCH if waits_for_host(node, profile) else binding(roof, node, ceilings) or ""


def _roofline(nodes: Sequence[Node], ceilings: Ceilings) -> dict[str, Any] | None:
    """Ceilings, and a point for every module that computes something itself."""
    if not (ceilings.bandwidth and ceilings.flops):
        return None
    points = []
    for number, node in enumerate(nodes):
        own = node.own.forward
        if not (own.macs and own.bytes):
            continue
        seconds = own_latencies(node)[0]
        least = min(own.bytes, max(1, node.compulsory_bytes)) if not node.children else own.bytes
        points.append({
            "module": number, "low": own.flops / own.bytes, "high": own.flops / least,
            "rate": own.flops / seconds if seconds else None, "seconds": seconds,
        })  # fmt: skip
    if not points:
        return None
    ran = {row.dtype for node in nodes for row in node.ops if row.phase == FORWARD and row.cost.macs}
    peaks = [{"name": name, "flops": flops} for name, flops in ceilings.flops.items() if name in ran]
    every = [{"name": name, "flops": flops} for name, flops in ceilings.flops.items()]
    name = f"{ceilings.name} ({ceilings.source})"
    return {"device": name, "bandwidth": ceilings.bandwidth, "peaks": peaks or every, "points": points}


def _findings(profile: Profile, nodes: Sequence[Node]) -> list[dict[str, Any]] | None:
    found = findings(profile)
    if not found:
        return None
    place = {node.path: number for number, node in enumerate(nodes)}
    return [
        {"title": one.what, "text": f"{one.evidence}; {one.win}", "next": one.next_move, "seconds": one.seconds or None,
         "share": one.share or None, "modules": [place[path] for path in one.where if path in place]}
        for one in found
    ]  # fmt: skip
