"""The figures of module rows as columns, shared by the tree and the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import units
from ..analysis.figures import BOOK, UNITS, Figure, shown
from ..analysis.tables import TableRow
from ..errors import check_known
from ..results.records import BACKWARD, Shape
from .page import Column

KEEP = {
    "flops": 90, "params": 80, "active_params": 78, "latency": 70, "backward_pass_flops": 50, "activation_bytes": 45,
    "backward_latency": 30, "macs": 10,
}  # fmt: skip
"""How long a narrow page keeps each column: those with the lowest number leave first."""
SHARES = {"flops": ("%", 60), "latency": ("% ", 55)}
"""Figures whose share of the whole is a column of its own: its title and how long it stays."""
SHARE = "share"
STYLES = {"flops": "cyan", "latency": "magenta", "backward_latency": "magenta"}


def figures(rows: Sequence[TableRow], *, trained: bool) -> list[Column]:
    """One column a figure; figures that no row has are left out."""
    found = []
    for figure in shown("rows"):
        if not _has(figure, rows, trained=trained):
            continue
        key = figure.key
        cells = tuple(_cells(figure, rows))
        found.append(Column(figure.short, cells, KEEP.get(key, 0), style=STYLES.get(key, "")))
        if key in SHARES:
            title, keep = SHARES[key]
            shares = tuple(row.shares[key] for row in rows)
            cells = tuple("" if share is None else units.percent(share) for share in shares)
            found.append(Column(title, cells, keep, style="dim", shares=shares))
    if any(row.output_shapes for row in rows):
        found.append(Column("output", tuple(shapes(row.output_shapes) for row in rows), keep=5, right=False))
    return found


def chosen(columns: Sequence[Column], names: str | None) -> list[Column]:
    """The columns that are named, in that order: by a figure's name, `share`, or `output`; without names all."""
    if names is None:
        return list(columns)
    there = {column.title for column in columns}
    owners = {head: figure.key for figure in reversed(BOOK.values()) for head in (figure.short, figure.label)}
    titles = {key: {head for head in there if owners.get(head) == key} for key in BOOK}
    titles |= {SHARE: {title for title, _ in SHARES.values()} & there, "output": {"output"} & there}
    known = [key for key, heads in titles.items() if heads]
    found = []
    for name in (word.strip() for word in names.split(",")):
        check_known(name, known, f"There is no column {name!r} here", "Columns:")
        found += [column for column in columns if column.title in titles[name]]
    return found


def _has(figure: Figure, rows: Sequence[TableRow], *, trained: bool) -> bool:
    """Whether a figure has a column: numbers of zero say something, no bytes and no times do not."""
    if figure.phase == BACKWARD and not trained:
        return False
    values = [row[figure.key] for row in rows]
    if figure.part_of:
        return any(value != row[figure.part_of] for value, row in zip(values, rows, strict=True))
    return figure.unit == "count" or any(value is not None if figure.is_time else value for value in values)


def _cells(figure: Figure, rows: Sequence[TableRow]) -> Iterator[str]:
    """The text of each row's value; work is not zero but unknown if nothing but unknown ops ran."""
    key, text = figure.key, UNITS[figure.unit].text
    work, missing = key in ("macs", "flops"), "" if figure.is_time else "?"
    for row in rows:
        value = row.figures[key]
        if work and row.unknown and not value:
            yield "?"
        else:
            yield missing if value is None else text(value)


def shapes(outputs: Sequence[Shape]) -> str:
    """The first two shapes, and how many more there are."""
    said = ", ".join(units.shape(shape) for shape in outputs[:2])
    return said + (f" +{len(outputs) - 2}" if len(outputs) > 2 else "")
