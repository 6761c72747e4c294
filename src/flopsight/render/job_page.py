"""A job as text: its ranks side by side, then the model that they make up in the format asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import units
from ..files.store import dumps
from ..results.job import Job
from ..results.profile import Profile
from ..results.world import Whole
from .formats import Format

MOST_ROWS = 16
"""Ranks that are listed one by one; of more, the first ones and the slowest."""


def _time(profile: Profile) -> str:
    stat = profile.timing.whole
    return units.seconds(stat.median) if stat else "-"


COLUMNS: dict[str, Callable[[Profile], str]] = {
    "rank": lambda profile: str(profile.world.rank),
    "stage": lambda profile: str(profile.world.stage),
    "params": lambda profile: units.si(profile.params),
    "active": lambda profile: "?" if profile.active_params is None else units.si(profile.active_params),
    "MACs": lambda profile: units.si(profile.macs),
    "FLOPs of the step": lambda profile: units.si(profile.root.total.total.flops),
    "sent": lambda profile: units.size(sum(row.wire_bytes for row in profile.comm)),
    "peak": lambda profile: "-" if profile.peak_bytes is None else units.size(profile.peak_bytes),
    "time": _time,
}


def text(job: Job, format: Format, options: Mapping[str, Any]) -> str:
    """The ranks where the format is a page for people, and the model."""
    if format.name == "json":
        return dumps(job)
    if format.name == "html":
        from .html import render

        return render(job, **options)
    model = format.text(job.model, options)
    return f"{ranks(job)}\n{model}" if format.page else model


def ranks(job: Job) -> str:
    """The ranks side by side, what they make up, and how even they are."""
    first = job.ranks[min(job.ranks)]
    mesh = " x ".join(f"{name} {size}" for name, size in first.world.mesh.items())
    lines = [f"Job of {job.size} ranks{f' ({mesh})' if mesh else ''}, {len(job.ranks)} arrived"]
    lines += [*_table(job), "", *_even(job)]
    whole = job.whole
    if whole is not None:
        lines.append(
            f"Whole model: {units.si(whole.params)} params{_active(whole)}, {units.si(whole.macs)} MACs and "
            f"{units.si(whole.flops)} FLOPs forward, {units.si(whole.backward.flops)} FLOPs backward"
        )
    lines += [_load(job)] if job.expert_load else []
    return "\n".join(lines) + "\n"


def _active(whole: Whole) -> str:
    return f" ({units.si(whole.active_params)} active)" if whole.active_params not in (None, whole.params) else ""


def _table(job: Job) -> list[str]:
    unneeded = set() if len(job.stages) > 1 else {"stage"}
    if all(profile.active_params == profile.params for profile in job.ranks.values()):
        unneeded.add("active")
    columns = [name for name in COLUMNS if name not in unneeded]
    numbers = sorted(job.ranks)
    shown = numbers if len(numbers) <= MOST_ROWS else sorted({*numbers[: MOST_ROWS - 1], job.slowest or 0})
    rows = [columns, *([COLUMNS[name](job.ranks[rank]) for name in columns] for rank in shown)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if len(numbers) > len(shown):
        lines.append(f"... and {len(numbers) - len(shown)} more ranks")
    return lines


def _even(job: Job) -> list[str]:
    parts = []
    for name, figure in (("FLOPs", "step_flops"), ("time", "time"), ("memory", "memory")):
        share = job.imbalance(figure)
        if share is not None:
            parts.append(f"{name} {share:.1%}")
    lines = [f"Largest rank above the mean: {', '.join(parts)}"] if parts else []
    if job.slowest is not None and len(job.ranks) > 1:
        lines.insert(0, f"Slowest: rank {job.slowest}, {_time(job.ranks[job.slowest])}")
    return lines


def _load(job: Job) -> str:
    shown = [f"{path} of rank {rank}: {tokens}" for (rank, path), tokens in list(job.expert_load.items())[:MOST_ROWS]]
    return f"Tokens by expert: {', '.join(shown)}"
