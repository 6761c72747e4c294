"""Several profiles as one table: a row a model, for papers and READMEs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import units
from ..errors import InputError, did_you_mean
from ..results.profile import Profile
from . import latex, markdown
from .page import Column, Grid
from .plain import plain

Read = Callable[[Profile], str | None]
FIGURES: dict[str, Read] = {
    "params": lambda p: units.si(p.params),
    "active params": lambda p: None if p.active_params in (None, p.params) else units.si(p.active_params),
    "MACs": lambda p: units.si(p.macs),
    "FLOPs": lambda p: units.si(p.flops),
    "backward FLOPs": lambda p: units.si(p.backward.flops) if p.trained else None,
    "saved": lambda p: units.size(p.activation_bytes) if p.activation_bytes else None,
    "peak memory": lambda p: units.size(p.peak_bytes) if p.peak_bytes else None,
    "latency": lambda p: units.seconds(p.latency) if p.latency else None,
    "step": lambda p: units.seconds(p.timing.step.median) if p.timing.step else None,
    "samples/s": lambda p: units.si(p.throughput) if p.throughput else None,
    "MFU": lambda p: f"{p.mfu:.1%}" if p.mfu else None,
}
"""Columns, each shown where any of the profiles knows it."""
FORMATS = ("table", "markdown", "latex")


def render(profiles: Sequence[Profile], names: Sequence[str], format: str = "table") -> str:
    """The models in the order given, their figures in columns."""
    if format not in FORMATS:
        raise InputError(
            f"Several profiles cannot be drawn as {format}.{did_you_mean(format, FORMATS)} Formats: {', '.join(FORMATS)}."
        )
    rows = [{name: read(profile) for name, read in FIGURES.items()} for profile in profiles]
    known = [name for name in FIGURES if any(row[name] is not None for row in rows)]
    columns = [
        Column("profile", tuple(names), right=False),
        Column("model", tuple(profile.root.kind for profile in profiles), right=False),
        *(Column(name, tuple(row[name] or "-" for row in rows)) for name in known),
    ]
    if format == "table":
        return plain([Grid(tuple(columns))])
    if format == "markdown":
        return markdown.grid(columns) + "\n"  # it escapes by itself
    escape = latex.escaped
    return latex.tabular([Column(escape(c.title), tuple(map(escape, c.cells)), right=c.right) for c in columns])
