"""A sweep as a table of its points, a table of how modules grow, CSV, Markdown, and a plot."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from .. import units
from ..analysis.figures import BOOK, shown
from ..errors import InputError

if TYPE_CHECKING:
    from ..analysis.growth import Growth

Row = Mapping[str, Any]

COLOURS = ("#1f6feb", "#d29922", "#2da44e", "#cf222e", "#8250df", "#0598bc", "#bf3989", "#57606a")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 760, 420, 70, 40, 50, 190


def text_table(rows: Sequence[Row], axes: Sequence[str]) -> str:
    """One line a point; a figure that no point has is left out."""
    return "\n".join(_columns(_cells(rows, axes)))


def markdown_table(rows: Sequence[Row], axes: Sequence[str]) -> str:
    """The same as a Markdown table."""
    head, *lines = _cells(rows, axes)
    rule = "|" + " ---: |" * len(head)
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)]) + "\n"


def csv_table(rows: Sequence[Row], axes: Sequence[str]) -> str:
    """Plain numbers, one line a point."""
    names = [*axes, *_present(rows), *(["error"] if any(row.get("error") for row in rows) else [])]
    page = io.StringIO()
    writer = csv.DictWriter(page, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return page.getvalue()


def growth_table(axis: str, values: Sequence[float], growths: Mapping[str, Growth], most: int = 12) -> str:
    """Which share of each module's FLOPs is constant, linear and quadratic along an axis with these values."""
    head = ["module", f"FLOPs at {axis}={_axis_value(max(values))}", "constant", "linear", "quadratic", ""]
    lines = []
    for name, growth in list(growths.items())[:most]:
        shares = [_share(part, growth.total) for part in (growth.constant, growth.linear, growth.quadratic)]
        doubt = "" if growth.exact else "not confirmed" if growth.on_curve else "not a polynomial"
        lines.append([name or "the root", units.si(growth.total), *shares, doubt])
    more = len(growths) - most
    below = [f"{more} more modules are smaller than these."] if more > 0 else []
    if any(line[-1] == "not confirmed" for line in lines):
        number = len(set(values))
        below.append(
            f"not confirmed: {number} values of {axis} lie on such a curve in any case; one more shows whether it holds."
        )
    return "\n".join([*_columns([head, *lines], left={0, 5}), *below])


def check_plot(axes: Mapping[str, Sequence[Any]]) -> None:
    """Refuse a plot of a sweep that varies no numbers."""
    if not any(_is_number(value) for values in axes.values() for value in values):
        raise InputError(f"A plot needs an axis of numbers; {', '.join(axes)} has none. Write .csv, .md or .txt.")


def svg_plot(rows: Sequence[Row], axes: Sequence[str], figure: str = "flops") -> str:
    """FLOPs along the axis with most values, a line for each combination of the others; both scales logarithmic."""
    axis = max(axes, key=lambda name: len({row[name] for row in rows if _is_number(row[name])}))
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if _is_number(row[axis]) and row[axis] > 0 and row.get(figure):
            rest = ", ".join(f"{name}={_axis_value(row[name])}" for name in axes if name != axis)
            lines.setdefault(rest, []).append((float(row[axis]), float(row[figure])))
    points = [point for line in lines.values() for point in line]
    if not points:
        raise InputError(f"No point of this sweep has {BOOK[figure].short} to plot. Write .csv, .md or .txt.")
    across, up = (_scale([point[side] for point in points]) for side in (0, 1))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + across(point[0]) * inner_width, HEIGHT - BOTTOM - up(point[1]) * inner_height

    drawn = [_text(LEFT, TOP - 16, f"{BOOK[figure].short} by {axis}", size=15)]
    for value in sorted({point[0] for point in points}):
        x, _ = place((value, points[0][1]))
        drawn += [
            _line(x, TOP, x, HEIGHT - BOTTOM),
            _text(x, HEIGHT - BOTTOM + 18, _axis_value(value), anchor="middle"),
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


def _present(rows: Sequence[Row]) -> list[str]:
    return [figure.key for figure in shown("sweep") if any(row.get(figure.key) is not None for row in rows)]


def _cells(rows: Sequence[Row], axes: Sequence[str]) -> list[list[str]]:
    figures = _present(rows)
    head = [*axes, *(BOOK[name].short for name in figures)]
    lines = []
    for row in rows:
        error = row.get("error")
        written = [BOOK[name].text(row[name]) if row.get(name) is not None else "-" for name in figures]
        lines.append([*(_axis_value(row[axis]) for axis in axes), *([error] if error else written)])
    return [head, *(line + [""] * (len(head) - len(line)) for line in lines)]


def _columns(rows: Sequence[Sequence[str]], left: set[int] | None = None) -> list[str]:
    # an error stands where figures would be, and may be wider than all of them
    widths = [
        max(len(row[place]) for row in rows if len(row[place]) < 40 or place in (left or ()))
        for place in range(len(rows[0]))
    ]
    return [
        "  ".join(
            cell.ljust(width) if place in (left or ()) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _axis_value(value: Any) -> str:
    if _is_number(value) and value == int(value):
        return f"{int(value):,}"
    return str(value)


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
