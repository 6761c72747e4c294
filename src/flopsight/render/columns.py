"""The figures of module rows as columns, shared by the tree and the table."""

from __future__ import annotations

from collections.abc import Sequence

from .. import units
from ..analysis.tables import TableRow
from ..results.records import Shape
from .page import Column


def figures(rows: Sequence[TableRow], *, trained: bool) -> list[Column]:
    """One column a figure; figures that no row has are left out."""
    found = [
        Column("params", tuple(units.si(row.params) for row in rows), keep=80),
        *_active(rows),
        Column("MACs", tuple(_work(row, row.macs) for row in rows), keep=10),
        Column("FLOPs", tuple(_work(row, row.flops) for row in rows), keep=90, style="cyan"),
        Column("%", tuple(units.percent(row.flops_share) for row in rows), keep=60, style="dim"),
    ]
    if trained:
        found.append(Column("backward", tuple(units.si(row.backward_flops) for row in rows), keep=50))
    if any(row.activation_bytes for row in rows):
        found.append(Column("saved", tuple(units.size(row.activation_bytes) for row in rows), keep=45))
    if any(row.latency is not None for row in rows):
        times = tuple("" if row.latency is None else units.seconds(row.latency) for row in rows)
        shares = tuple("" if row.latency_share is None else units.percent(row.latency_share) for row in rows)
        found += [Column("latency", times, keep=70, style="magenta"), Column("% ", shares, keep=55, style="dim")]
    if trained and any(row.backward_latency is not None for row in rows):
        times = tuple("" if row.backward_latency is None else units.seconds(row.backward_latency) for row in rows)
        found.append(Column("bwd latency", times, keep=30, style="magenta"))
    if any(row.output_shapes for row in rows):
        found.append(Column("output", tuple(shapes(row.output_shapes) for row in rows), keep=5, right=False))
    return found


def _active(rows: Sequence[TableRow]) -> list[Column]:
    """What one token passes of the parameters, where that is not all of them."""
    if all(row.active_params == row.params for row in rows):
        return []
    said = ("?" if row.active_params is None else units.si(row.active_params) for row in rows)
    return [Column("active", tuple(said), keep=78)]


def shapes(outputs: Sequence[Shape], most: int = 2) -> str:
    """The first shapes, and how many more there are."""
    said = ", ".join(units.shape(shape) for shape in outputs[:most])
    return said + (f" +{len(outputs) - most}" if len(outputs) > most else "")


def _work(row: TableRow, value: int) -> str:
    """A number of operations; where nothing but unknown ops ran it is not zero, it is not known."""
    return "?" if row.unknown and not value else units.si(value)
