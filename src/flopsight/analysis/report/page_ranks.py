"""The data of the report page on many ranks: ranks side by side, and every collective with its module and mesh dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...results.job import Job
from ...results.node import Node
from ..figures import BOOK, Figure
from .page_data import Stacks, by_stack, grid, known_columns

COLUMNS = ("time", "flops", "step_flops", "params", "peak_bytes", "activation_bytes", "comm_bytes")
"""Figures of the book, in the order in which the page shows them."""


def ranks(job: Job) -> dict[str, Any]:
    """One row a rank, with those figures that any rank knows."""
    values = {BOOK[key]: found for key in COLUMNS if any((found := job.values(key)).values())}
    staged = len(job.stages) > 1
    columns = [("rank", "text"), *([("stage", "text")] if staged else [])]
    columns += [(figure.full, figure.unit) for figure in values]
    rows = []
    for rank, profile in sorted(job.ranks.items()):
        place = [f"rank {rank}", *([profile.world.stage] if staged else [])]
        rows.append([*place, *(found.get(rank) for found in values.values())])
    return grid("Ranks side by side", columns, rows, about=_balance(job, list(values)))


def collectives(nodes: Sequence[Node], stacks: Stacks) -> dict[str, Any] | None:
    """Every collective by module, blocks of a stack together; None if the model does not communicate."""
    columns = [
        ("module", "text"), ("collective", "text"), ("phase", "text"), ("mesh dimension", "text"), ("ranks", "text"),
        ("calls", "count"), ("handed in", "bytes"), ("sent on a ring", "bytes"), ("time", "seconds"),
        ("exposed", "seconds"), ("note", "text"),
    ]  # fmt: skip
    found = [
        (node.path, (row.op, row.phase, row.dim or None, row.group_size, row.calls, row.bytes, row.wire_bytes,
         row.seconds, row.exposed, "set-up, outside the totals" if row.setup else ", ".join(row.holds[:4]) or None))
        for node in nodes for row in (*node.comm, *node.setup_comm)
    ]  # fmt: skip
    if not found:
        return None
    known, cells = known_columns(columns[1:], [cells for _, cells in found])
    rows = [(path, 0.0, row) for (path, _), row in zip(found, cells, strict=True)]
    return by_stack("Collectives", [columns[0], *known], rows, stacks)


def _balance(job: Job, shown: Sequence[Figure]) -> str:
    """What the largest rank has above the mean, in words, and who is missing."""
    parts = [f"{figure.full} {share:.1%}" for figure in shown if (share := job.imbalance(figure.key))]
    said = f"The largest rank is above the mean by: {', '.join(parts)}." if parts else "The ranks are alike."
    slowest = f" Rank {job.slowest} has the longest step." if job.slowest is not None else ""
    missing = f" Missing: {', '.join(map(str, job.missing))}." if job.missing else ""
    return f"{said}{slowest}{missing}"
