"""A sweep as a page: a table of its points, a table of how modules grow along each axis, and a plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .. import units
from ..analysis.figures import BOOK, shown
from ..errors import InputError, did_you_mean
from ..files.store import dumps
from ..files.whole_files import as_bytes
from ..results.sweep import Sweep
from . import latex, markdown
from .csv import csv_text
from .html.static import standalone
from .notebook import draw
from .page import Column, Grid, Heading, Lines, Page
from .plain import plain

Row = Mapping[str, Any]
FORMATS = ("tree", "markdown", "latex", "csv", "json")
SUFFIXES = {
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
    ".txt": "tree",
    ".html": "html",
    ".svg": "picture",
    ".png": "picture",
    ".pdf": "picture",
}
"""What files of a sweep are called, and what they hold."""
MOST_MODULES = 12
WIDE = 10**6
"""Text that no terminal limits."""
COLOURS = ("#1f6feb", "#d29922", "#2da44e", "#cf222e", "#8250df", "#0598bc", "#bf3989", "#57606a")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 760, 420, 70, 40, 50, 190


def page(sweep: Sweep) -> Page:
    """A line a point, why points failed, and for every axis of numbers how the modules grow."""
    failed = [
        f"{', '.join(f'{axis}={axis_text(point.values[axis])}' for axis in sweep.axes)}: {point.error}"
        for point in sweep.points
        if point.error
    ]
    return [
        _points(sweep),
        Lines(tuple(failed), "yellow"),
        *(part for axis in sweep.axes for part in _growth(sweep, axis)),
    ]


def text(sweep: Sweep, format: str = "tree", width: int | None = None) -> str:
    """A sweep in one of the formats that it has."""
    if format not in FORMATS:
        raise InputError(
            f"A sweep cannot be drawn as {format}.{did_you_mean(format, FORMATS)} Formats: {', '.join(FORMATS)}."
        )
    if format == "json":
        return dumps(sweep)
    if format == "csv":
        names = [*sweep.axes, *_present(sweep.rows), *(["error"] if any(point.error for point in sweep.points) else [])]
        return csv_text(sweep.rows, names)
    if format == "latex":
        return latex.grid(_points(sweep))
    return markdown.draw(page(sweep)) if format == "markdown" else plain(page(sweep), width or WIDE)


def contents(sweep: Sweep, path: Path) -> bytes:
    """What a file of that name holds; without matplotlib an SVG is the plain plot of the page."""
    check_file(path, sweep.axes)
    kind = SUFFIXES[path.suffix]
    if kind != "picture":
        return as_bytes(html(sweep) if kind == "html" else text(sweep, kind))
    try:
        from .pictures.sweep_lines import SweepPictures
    except InputError:
        if path.suffix == ".svg":
            return as_bytes(svg_plot(sweep.rows, list(sweep.axes)))
        raise
    return SweepPictures(sweep).lines().encoded(path.suffix.removeprefix("."))


def html(sweep: Sweep) -> str:
    """The tables and the plot as one HTML file."""
    name = f"Sweep of {sweep.one_line}"
    picture = svg_plot(sweep.rows, list(sweep.axes)) if _has_numbers(sweep.axes) else ""
    return standalone(name, draw([Heading(name), *page(sweep)]) + picture)


def check_file(path: Path, axes: Mapping[str, Sequence[Any]]) -> None:
    """Refuse a file whose suffix says no format of a sweep, and a plot of a sweep that varies no numbers."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"The suffix of {path} says no format of a sweep; it can be {', '.join(SUFFIXES)}.")
    if SUFFIXES[path.suffix] == "picture" and not _has_numbers(axes):
        raise InputError(f"A plot needs an axis of numbers; {', '.join(axes)} has none. Write .csv, .md or .txt.")


def _points(sweep: Sweep) -> Grid:
    """One line a point; a figure that no point has is left out."""
    columns = [Column(axis, tuple(axis_text(row[axis]) for row in sweep.rows), keep=100) for axis in sweep.axes]
    for key in _present(sweep.rows):
        values = [row.get(key) for row in sweep.rows]
        cells = tuple("-" if value is None else BOOK[key].text(value) for value in values)
        columns.append(Column(BOOK[key].short, cells, keep=90 - len(columns)))
    return Grid(tuple(columns))


def _present(rows: Sequence[Row]) -> list[str]:
    return [figure.key for figure in shown("sweep") if any(row.get(figure.key) is not None for row in rows)]


def _growth(sweep: Sweep, axis: str) -> Page:
    """Which share of each module's FLOPs is constant, linear and quadratic along an axis, the largest modules first."""
    growths, values = sweep.growth(axis), [value for value, _ in sweep.along(axis)]
    if not growths:
        return []
    most = list(growths.items())[:MOST_MODULES]
    doubts = tuple("" if one.exact else "not confirmed" if one.on_curve else "not a polynomial" for _, one in most)
    grid = Grid((
        Column("module", tuple(name or "the root" for name, _ in most), right=False),
        Column(f"FLOPs at {axis}={axis_text(max(values))}", tuple(units.si(one.total) for _, one in most), keep=9),
        *(Column(part, tuple(_share(getattr(one, part), one.total) for _, one in most), keep=8) for part in ("constant", "linear", "quadratic")),
        *((Column("", doubts, keep=7, right=False),) if any(doubts) else ()),
    ))  # fmt: skip
    below = (
        [f"{len(growths) - MOST_MODULES} more modules are smaller than these."] if len(growths) > MOST_MODULES else []
    )
    if "not confirmed" in doubts:
        number = len(set(values))
        below.append(
            f"not confirmed: {number} values of {axis} lie on such a curve in any case; one more shows whether it holds."
        )
    return [grid, Lines(tuple(below), "dim")]


def lines_of(rows: Sequence[Row], axes: Sequence[str], figure: str) -> tuple[str, dict[str, list[tuple[float, float]]]]:
    """The axis with most values, and a figure along it for each combination of the others."""
    axis = max(axes, key=lambda name: len({row[name] for row in rows if _is_number(row[name])}))
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if _is_number(row[axis]) and row[axis] > 0 and row.get(figure):
            rest = ", ".join(f"{name}={axis_text(row[name])}" for name in axes if name != axis)
            lines.setdefault(rest, []).append((float(row[axis]), float(row[figure])))
    if not lines:
        raise InputError(f"No point of this sweep has {BOOK[figure].short} to plot. Write .csv, .md or .txt.")
    return axis, lines


def svg_plot(rows: Sequence[Row], axes: Sequence[str], figure: str = "flops") -> str:
    """FLOPs along the axis with most values, a line for each combination of the others; both scales logarithmic."""
    axis, lines = lines_of(rows, axes, figure)
    points = [point for line in lines.values() for point in line]
    across, up = (_scale([point[side] for point in points]) for side in (0, 1))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + across(point[0]) * inner_width, HEIGHT - BOTTOM - up(point[1]) * inner_height

    drawn = [_text(LEFT, TOP - 16, f"{BOOK[figure].short} by {axis}", size=15)]
    for value in sorted({point[0] for point in points}):
        x, _ = place((value, points[0][1]))
        drawn += [
            _line(x, TOP, x, HEIGHT - BOTTOM),
            _text(x, HEIGHT - BOTTOM + 18, axis_text(value), anchor="middle"),
        ]
    for value in _decades([point[1] for point in points]):
        _, y = place((points[0][0], value))
        drawn += [_line(LEFT, y, WIDTH - RIGHT, y), _text(LEFT - 6, y + 4, units.si(value), anchor="end")]
    for place_in_order, (name, line) in enumerate(lines.items()):
        colour = COLOURS[place_in_order % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, sorted(line)))
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in map(place, line)]
        drawn.append(_text(WIDTH - RIGHT + 14, TOP + 16 + 18 * place_in_order, name or axis, colour=colour))
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *drawn, "</svg>"]) + "\n"


def axis_text(value: Any) -> str:
    """A value of an axis as it is shown."""
    if _is_number(value) and value == int(value):
        return f"{int(value):,}"
    return str(value)


def _has_numbers(axes: Mapping[str, Sequence[Any]]) -> bool:
    return any(_is_number(value) for values in axes.values() for value in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _share(part: float, whole: float) -> str:
    return units.percent(part / whole) if part > 0 else "0" if not part else f"-{units.percent(-part / whole)}"


def _scale(values: Sequence[float]) -> Callable[[float], float]:
    low, high = math.log(min(values)), math.log(max(values))
    return lambda value: 0.5 if high == low else (math.log(value) - low) / (high - low)


def _decades(values: Sequence[float]) -> list[float]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    marks = [10.0**power for power in range(low, high + 1) if min(values) <= 10.0**power <= max(values)]
    return marks or [min(values), max(values)]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#e0e0e0"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, colour: str = "#333") -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
