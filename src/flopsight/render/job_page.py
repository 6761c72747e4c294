"""A job as text: its ranks side by side, then the model that they make up in the format asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import units
from ..analysis.figures import BOOK, Figure, shown
from ..files.store import dumps
from ..results.job import Job
from ..results.profile import Profile
from ..results.world import Whole
from .formats import Format
from .page import Column, Grid, Heading, Lines, Page
from .plain import plain

MOST_ROWS = 16
"""Ranks that are listed one by one; of more, the first ones and the slowest."""


def text(job: Job, format: Format, options: Mapping[str, Any]) -> str:
    """The ranks if the format is a page for people, and the model."""
    if format.name == "json":
        return dumps(job)
    if format.name == "html":
        from .html import render

        return render(job, **options)
    model = format.text(job.model, options)
    return f"{plain(ranks(job), options.get('width'))}\n{model}" if format.page else model


def ranks(job: Job) -> Page:
    """The ranks side by side, what they make up, and how even they are."""
    first = job.ranks[min(job.ranks)]
    mesh = " x ".join(f"{name} {size}" for name, size in first.world.mesh.items())
    numbers = sorted(job.ranks)
    listed = numbers if len(numbers) <= MOST_ROWS else sorted({*numbers[: MOST_ROWS - 1], job.slowest or 0})
    more = len(numbers) - len(listed)
    return [
        Heading(f"Job of {job.size} ranks{f' ({mesh})' if mesh else ''}, {len(job.ranks)} arrived"),
        _table(job, [job.ranks[rank] for rank in listed]),
        Lines((f"... and {more} more ranks",) if more else ()),
        Lines((*_even(job), *_whole(job), *([_load(job)] if job.expert_load else []))),
    ]


def _whole(job: Job) -> list[str]:
    whole = job.whole
    if whole is None:
        return []
    forward = f"{units.si(whole.macs)} MACs and {units.si(whole.flops)} FLOPs forward"
    return [
        f"Whole model: {units.si(whole.params)} params{_active(whole)}, {forward}, {units.si(whole.backward.flops)} FLOPs backward"
    ]


def _active(whole: Whole) -> str:
    return f" ({units.si(whole.active_params)} active)" if whole.active_params not in (None, whole.params) else ""


def _table(job: Job, listed: Sequence[Profile]) -> Grid:
    places = {"rank": [str(one.world.rank) for one in listed], "stage": [str(one.world.stage) for one in listed]}
    figures = [
        figure
        for figure in shown("ranks")
        if not figure.part_of or any(figure.telling(profile) is not None for profile in job.ranks.values())
    ]
    return Grid((
        *(Column(name, tuple(cells)) for name, cells in places.items() if name == "rank" or len(job.stages) > 1),
        *(Column(figure.short, tuple(_cell(figure, one) for one in listed), keep=50) for figure in figures),
    ))  # fmt: skip


def _cell(figure: Figure, profile: Profile) -> str:
    value = figure.read(profile)
    return figure.text(value) if value is not None else "?" if figure.part_of else "-"


def _even(job: Job) -> list[str]:
    parts = []
    for name, figure in (("FLOPs", "step_flops"), ("time", "time"), ("memory", "memory")):
        share = job.imbalance(figure)
        if share is not None:
            parts.append(f"{name} {share:.1%}")
    lines = [f"Largest rank above the mean: {', '.join(parts)}"] if parts else []
    if job.slowest is not None and len(job.ranks) > 1:
        lines.insert(0, f"Slowest: rank {job.slowest}, {_cell(BOOK['time'], job.ranks[job.slowest])}")
    return lines


def _load(job: Job) -> str:
    shown = [f"{path} of rank {rank}: {tokens}" for (rank, path), tokens in list(job.expert_load.items())[:MOST_ROWS]]
    return f"Tokens by expert: {', '.join(shown)}"
