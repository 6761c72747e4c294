"""A generation with packed weights: the same products, with fewer bytes read, and the work to unpack them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..results.costs import Cost, OpRow
from ..results.generation import Generation
from ..results.node import Node, rebuilt
from ..results.packing import Packing
from ..results.profile import Profile
from ..results.records import FORWARD, Parameter

UNPACK = "unpack"
"""The row of the work to unpack weights; it runs in the kernel of the product, so it moves nothing of its own."""


def packed(made: Generation, packing: Packing, sizes: Mapping[str, int]) -> Generation:
    """The generation with the weights of `sizes` packed: by path and name, the bytes of each."""
    steps = tuple(replace(step, profile=_packed(step.profile, packing, sizes)) for step in made.steps)
    return replace(made, prefill=_packed(made.prefill, packing, sizes), steps=steps, weights=packing.name)


def _packed(profile: Profile, packing: Packing, sizes: Mapping[str, int]) -> Profile:
    def make(node: Node, children: tuple[Node, ...]) -> Node:
        held = {p.key: size for p in node.parameters if (size := sizes.get(_name(node, p))) is not None}
        if not held:
            return replace(node, children=children) if children != node.children else node
        parameters = tuple(_smaller(p, held[p.key]) if p.key in held else p for p in node.parameters)
        ops = tuple(_rows(node, parameters, packing))
        forward = sum((row.cost for row in ops if row.phase == FORWARD), start=Cost())
        return replace(node, children=children, parameters=parameters, ops=ops, own=replace(node.own, forward=forward))

    root = rebuilt(profile.root, make)
    named = {
        p.key: (p, size)
        for node in profile.walk()
        for p in node.parameters
        if (size := sizes.get(_name(node, p))) is not None
    }
    spared = sum(p.nbytes - size for p, size in named.values())
    at_peak = dict(profile.at_peak)
    if "parameters" in at_peak:
        at_peak["parameters"] -= spared
    peak = profile.peak_bytes - spared if profile.peak_bytes is not None else None
    return replace(profile, root=root, at_peak=at_peak, peak_bytes=peak)


def _name(node: Node, parameter: Parameter) -> str:
    return f"{node.path}.{parameter.name}" if node.path else parameter.name


def _smaller(parameter: Parameter, size: int) -> Parameter:
    read = parameter.read_bytes
    return replace(
        parameter, held_bytes=size, read_bytes=read * size // parameter.nbytes if read and parameter.nbytes else read
    )


def _rows(node: Node, parameters: tuple[Parameter, ...], packing: Packing) -> list[OpRow]:
    """The rows of a module: its products read less, or run in another dtype, and unpacking is work of its own."""
    pairs = list(zip(node.parameters, parameters, strict=True))
    before, after = (sum(pair[side].most_read for pair in pairs) for side in (0, 1))
    products = [row for row in node.ops if row.cost.macs and row.phase == FORWARD]
    whole = sum(row.cost.macs for row in products)
    rows = []
    for row in node.ops:
        if row not in products:
            rows.append(row)
            continue
        spared = (before - after) * max(1, node.calls) * row.cost.macs // whole
        cost = replace(row.cost, bytes=max(0, row.cost.bytes - spared))
        rows.append(replace(row, cost=cost, dtype=packing.runs_in or row.dtype))
    unpacked = sum(old.numel * old.most_read // max(1, old.nbytes) for old, new in pairs if old is not new)
    work = packing.work * unpacked * max(1, node.calls)
    if work:
        rows.append(OpRow(UNPACK, FORWARD, max(1, node.calls), Cost(flops=work), kind="pointwise"))
    return rows
