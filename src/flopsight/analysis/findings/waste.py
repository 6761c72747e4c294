"""Work whose result is there already or is thrown away: ops repeated on the same values, padding."""

from __future__ import annotations

from collections.abc import Iterator

from ... import units
from ...hardware.op_families import ATTENTION, family
from ...results.costs import OpRow
from ...results.node import Node
from ...results.records import BACKWARD, FORWARD, RECOMPUTE
from ..limits.fused import MODEL
from .finding import Finding
from .scene import Scene, paths


def repeated_work(scene: Scene) -> Iterator[Finding]:
    """Ops that ran on the same values before in the same forward: a module called twice, a table made in every layer."""
    found: list[tuple[float, Node]] = []
    rows: list[tuple[float, OpRow]] = []
    for node in scene.profile.walk():
        again = [(_again(scene, row), row) for row in node.ops if row.repeated]
        spent = sum(seconds for seconds, _ in again)
        if not spent:
            continue
        # with the forward goes the part of backward that belongs to it
        whole = sum(scene.seconds(row) for row in node.ops if row.phase == FORWARD)
        later = sum(scene.seconds(row) for row in node.ops if row.phase in (BACKWARD, RECOMPUTE))
        found.append((spent + later * spent / whole if whole else spent, node))
        rows += again
    win = sum(seconds for seconds, _ in found)
    if not found or not scene.worth(win):
        return
    _, most = max(rows, key=lambda each: each[0])
    yield Finding(
        "repeated",
        "The same work is done again on the same values",
        paths(node for _, node in sorted(found, key=lambda each: -each[0])),
        f"{units.count(sum(row.repeated for _, row in rows))} op calls have an op and inputs that ran before in this forward, "
        f"first of all {most.repeated} of {most.calls} calls of {most.op}; "
        f"{'with their backward ' if scene.profile.trained else ''}they take {units.seconds(win)} {scene.basis}",
        "compute it once and hand the result on, or keep it in a buffer",
        win,
    )


def _again(scene: Scene, row: OpRow) -> float:
    """The time of the calls that were made before: their share of the bytes, since calls of a row differ in size."""
    if row.repeated_bytes and row.cost.bytes:
        return scene.seconds(row) * row.repeated_bytes / row.cost.bytes
    return scene.seconds(row) * row.repeated / row.calls if row.calls else 0.0


def padding(scene: Scene) -> Iterator[Finding]:
    """Positions of the batch that hold no token: every layer works on them, attention on their pairs."""
    seen = scene.profile.padding
    if seen is None or not seen.padded or scene.step is None or scene.launch_bound:
        return
    rows = [row for _, row in scene.rows(MODEL)]
    win = sum(scene.seconds(row) * (seen.pair_share if _is_of_pairs(row) else seen.share) for row in rows)
    if not scene.worth(win):
        return
    yield Finding(
        "padding",
        "A part of the batch is padding",
        ("",),
        f"{units.count(seen.padded)} of {units.count(seen.positions)} positions ({units.percent(seen.share)}) and "
        f"{units.percent(seen.pair_share)} of the pairs that attention works on hold no token",
        "batches of similar lengths, or sequences packed together (nested tensors, variable-length attention)",
        win,
    )


def _is_of_pairs(row: OpRow) -> bool:
    """Whether an op works on pairs of positions: attention, or its parts."""
    return family(row) == ATTENTION or "bmm" in row.op or "softmax" in row.op
