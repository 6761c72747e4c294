"""Work that is done op by op, each through memory, where one kernel could do several: chains that a compiler fuses."""

from __future__ import annotations

from collections.abc import Iterator

from ... import units
from ...results.caveats import CompiledWhole
from ...results.node import Node
from ...results.records import FORWARD, OPTIMIZER
from ..limits.fused import fusable
from .finding import Finding
from .scene import Scene, paths


def chains_that_fuse(scene: Scene) -> Iterator[Finding]:
    """Pointwise work, norms and copies between matrix products: fused, each chain reads and writes memory once."""
    ceilings = scene.ceilings
    if ceilings is None or not ceilings.bandwidth or scene.doubted(CompiledWhole):
        return
    taken = remaining = 0.0
    places: list[tuple[float, Node]] = []
    for scope in scene.profile.walk():
        members = [scope, *(child for child in scope.children if not child.children)]
        rows = [row for node in members for row in node.ops if fusable(row) and (node is not scope or scope.children)]
        if not rows:
            continue
        time, least = sum(map(scene.seconds, rows)), sum(map(scene.limit, rows))
        taken += time
        # perfect fusion still reads what products left and writes what the next ones take; at most half goes unneeded
        remaining += min(_product_bytes(scope) / ceilings.bandwidth, least / 2)
        places.append((time, scope))
    win = taken - remaining
    if not scene.worth(win) or scene.launch_bound:
        return
    largest = [node for _, node in sorted(places, key=lambda place: -place[0])]
    yield Finding(
        "fusion",
        "Pointwise work, norms and copies run op by op through memory",
        paths(largest),
        f"they take {units.seconds(taken)} {scene.basis}, fused into chains {units.seconds(remaining)} "
        f"at {units.si(ceilings.bandwidth, 'B/s')}",
        f"torch.compile(model){_lost_path(scene)}",
        win,
    )


def update_in_parts(scene: Scene) -> Iterator[Finding]:
    """An optimizer's step op by op: fused, it reads weights, gradients and state once and writes weights and state once."""
    ceilings = scene.ceilings
    rows = [row for _, row in scene.rows((OPTIMIZER,))]
    if not rows or ceilings is None or not ceilings.bandwidth or any("_fused_" in row.op for row in rows):
        return
    whole = scene.profile.timing.optimizer if scene.measured else None
    taken = whole.median if whole else sum(map(scene.seconds, rows))
    updated = [p for p in scene.profile.root.distinct_parameters if p.trainable]
    least = sum(3 * p.nbytes + 2 * p.state_bytes for p in updated) / ceilings.bandwidth
    win = taken - least
    if not scene.worth(win):
        return
    yield Finding(
        "optimizer",
        "The optimizer's step runs op by op through memory",
        ("",),
        f"it moves {units.size(sum(row.cost.bytes for row in rows))} in {units.seconds(taken)} {scene.basis}; weights, gradients and "
        f"state, each read and written once, need {units.seconds(least)}",
        "fused=True if the optimizer has it",
        win,
    )


def _product_bytes(scope: Node) -> int:
    """What products right below a module leave behind, and the distinct inputs that they take; at least its own ends."""
    left = 0
    taken: dict[object, int] = {}
    for node in scope.children:
        if node.own.forward.macs and not node.children:
            left += node.output_bytes * max(1, node.calls)
            taken[node.input_shapes] = node.input_bytes
    ends = (scope.input_bytes + scope.output_bytes) * max(1, scope.calls)
    return max(ends, left + sum(taken.values())) * (2 if scope.total.backward.bytes else 1)


def _lost_path(scene: Scene) -> str:
    """A warning if a compiled model may give up what runs fused now: torch's encoder layer, causal attention."""
    fused = any(node.kind == "TransformerEncoderLayer" for node in scene.profile.walk())
    if fused and not scene.profile.trained:
        return ", which gives up torch's own fused encoder layer, so measure it"
    causal = any(row.cost.skipped_macs for _, row in scene.rows((FORWARD,)))
    return ", and compare attention: compiled, it may get a mask where it is causal now" if causal else ""
