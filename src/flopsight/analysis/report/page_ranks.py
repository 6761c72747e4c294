"""The data of the report page on many ranks: ranks side by side, and every collective with its module and mesh dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...results.job import FIGURES, Job
from ...results.node import Node
from .page_data import grid

COLUMNS = (
    ("time", "time of a step", "seconds"), ("flops", "forward FLOPs", "count"), ("step_flops", "FLOPs of a step", "count"),
    ("params", "params", "count"), ("memory", "peak memory", "bytes"), ("activations", "saved", "bytes"),
    ("comm", "sent", "bytes"),
)  # fmt: skip
"""Figures of a job as the page shows them: its name, title and unit."""


def ranks(job: Job) -> dict[str, Any]:
    """One row a rank, with those figures that any rank knows."""
    values = {name: job.values(name) for name, _, _ in COLUMNS if name in FIGURES}
    shown = [(name, title, unit) for name, title, unit in COLUMNS if any(values.get(name, {}).values())]
    staged = len(job.stages) > 1
    rows = [
        [
            f"rank {rank}",
            *([job.ranks[rank].world.stage] if staged else []),
            *(values[name].get(rank) for name, _, _ in shown),
        ]
        for rank in sorted(job.ranks)
    ]
    columns = [("rank", "text"), *([("stage", "text")] if staged else []), *((title, unit) for _, title, unit in shown)]
    return grid("Ranks side by side", columns, rows, about=_balance(job, shown))


def collectives(nodes: Sequence[Node]) -> dict[str, Any] | None:
    """Every collective by module; None where the model does not communicate."""
    found = [(number, node, row) for number, node in enumerate(nodes) for row in (*node.comm, *node.setup_comm)]
    if not found:
        return None
    columns = [
        ("module", "text"), ("collective", "text"), ("phase", "text"), ("mesh dimension", "text"), ("ranks", "text"),
        ("calls", "count"), ("handed in", "bytes"), ("sent on a ring", "bytes"), ("time", "seconds"),
        ("exposed", "seconds"), ("note", "text"),
    ]  # fmt: skip
    rows = [
        [node.path or node.kind, row.op, row.phase, row.dim or "", row.group_size, row.calls, row.bytes, row.wire_bytes,
         row.seconds, row.exposed, "set-up, outside the totals" if row.setup else ", ".join(row.holds[:4])]
        for _, node, row in found
    ]  # fmt: skip
    return grid("Collectives", columns, rows, [number for number, _, _ in found])


def _balance(job: Job, shown: Sequence[tuple[str, str, str]]) -> str:
    """What the largest rank has above the mean, in words, and who is missing."""
    parts = [f"{title} {share:.1%}" for name, title, _ in shown if (share := job.imbalance(name))]
    said = f"The largest rank is above the mean by: {', '.join(parts)}." if parts else "The ranks are alike."
    slowest = f" Rank {job.slowest} has the longest step." if job.slowest is not None else ""
    missing = f" Missing: {', '.join(map(str, job.missing))}." if job.missing else ""
    return f"{said}{slowest}{missing}"
