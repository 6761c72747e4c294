"""Plots of a sweep: a figure along the axis with most values, a line for each combination of the others, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from ..analysis.figures import BOOK, shown
from ..analysis.sweep_figures import memory_of
from ..errors import InputError
from ..results.sweep import Sweep
from .palette import LIMIT, LINES, NOTE
from .svg_pieces import curve, dot, line, words

Row = Mapping[str, Any]
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 760, 420, 80, 40, 50, 170
SERVED = ("most_tokens_per_second", "per_output_token", "first_token", "peak_bytes")
LIMITED = ("least_time", "peak_bytes", "flops")
"""Figures that are plotted of a generation, and of profiles on a named device."""
MEASURED = {
    "most_tokens_per_second": "measured_tokens_per_second",
    "per_output_token": "measured_per_output_token",
    "first_token": "measured_first_token",
}
"""What stands for a limit if no device is known."""


def present(rows: Sequence[Row]) -> list[str]:
    """The figures that a point of a sweep has, in the order of the book."""
    known = [figure.key for figure in (*shown("sweep"), *shown("served"))]
    return [key for key in known if any(row.get(key) is not None for row in rows)]


def plotted(sweep: Sweep) -> list[str]:
    """The figures that are worth a plot."""
    has = present(sweep.rows)
    wanted: Sequence[str] = LIMITED if sweep.device else ("flops",)
    if any(point.generation is not None for point in sweep.points):
        wanted = [key if key in has else MEASURED.get(key, key) for key in SERVED]
    return [key for key in wanted if key in has]


def panels(sweep: Sweep) -> list[str]:
    """A plot of each of these figures."""
    memory = memory_of(sweep.device)
    return [
        svg_plot(sweep.rows, list(sweep.axes), key, memory if key == "peak_bytes" else None) for key in plotted(sweep)
    ]


def svg_plots(sweep: Sweep) -> str:
    """All plots below one another, as one file."""
    drawn = panels(sweep)
    if not drawn:
        raise InputError("No point of this sweep has a figure to plot. Write .csv, .md or .txt.")
    height = HEIGHT * len(drawn)
    moved = (plot.replace("<svg", f'<svg y="{HEIGHT * place}"', 1) for place, plot in enumerate(drawn))
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">\n{"".join(moved)}</svg>\n'


class Mark(NamedTuple):
    """A point of a plot."""

    x: float
    y: float
    fits: bool


def lines_of(rows: Sequence[Row], axes: Sequence[str], figure: str) -> tuple[str, dict[str, list[Mark]]]:
    """The axis with most values, and a figure along it for each combination of the others."""
    axis = max(axes, key=lambda name: len({row[name] for row in rows if is_number(row[name])}))
    lines: dict[str, list[Mark]] = {}
    for row in rows:
        if is_number(row[axis]) and row[axis] > 0 and row.get(figure):
            rest = ", ".join(f"{name}={axis_text(row[name])}" for name in axes if name != axis)
            fits = row.get("fits") is not False
            lines.setdefault(rest, []).append(Mark(float(row[axis]), float(row[figure]), fits))
    if not lines:
        raise InputError(f"No point of this sweep has {BOOK[figure].short} to plot. Write .csv, .md or .txt.")
    return axis, lines


def from_the_top(lines: Mapping[str, Sequence[Mark]]) -> list[str]:
    """The names of lines in the order in which they end on the right."""
    return sorted(lines, key=lambda name: -max(lines[name]).y)


def svg_plot(rows: Sequence[Row], axes: Sequence[str], figure: str = "flops", limit: float | None = None) -> str:
    """One figure, both scales logarithmic; `limit` is a value that is drawn across."""
    axis, lines = lines_of(rows, axes, figure)
    marks = [mark for found in lines.values() for mark in found]
    heights = [mark.y for mark in marks] + ([limit] if limit else [])
    across, up = _scale([mark.x for mark in marks]), _scale(heights)

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + across(x) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up(y) * (HEIGHT - TOP - BOTTOM)

    title = f"{BOOK[figure].label} by {axis}"
    drawn = [words(LEFT, TOP - 16, title, size=15)]
    drawn.append(words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, axis, anchor="middle"))
    drawn += _scales(sorted({mark.x for mark in marks}), heights, figure, place)
    if limit:
        y = place(marks[0].x, limit)[1]
        drawn += [
            line(LEFT, y, WIDTH - RIGHT, y, LIMIT),
            words(LEFT + 6, y + 15, f"memory {BOOK[figure].text(limit)}", colour=LIMIT),
        ]
    order = from_the_top(lines)
    for number, (name, found) in enumerate(lines.items()):
        colour, ordered = LINES[number % len(LINES)], sorted(found, key=lambda mark: mark.x)
        drawn.append(curve([place(mark.x, mark.y) for mark in ordered], colour))
        drawn += [dot(*place(mark.x, mark.y), colour, hollow=not mark.fits) for mark in ordered]
        drawn.append(words(WIDTH - RIGHT + 14, TOP + 16 + 22 * order.index(name), name or axis, colour=colour))
    if not all(mark.fits for mark in marks):
        drawn.append(words(LEFT, HEIGHT - 8, "hollow: does not fit the memory", colour=NOTE))
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *drawn, "</svg>"]) + "\n"


def _scales(
    values: Sequence[float], heights: Sequence[float], figure: str, place: Callable[[float, float], tuple[float, float]]
) -> list[str]:
    drawn = []
    for value in values:
        x, _ = place(value, heights[0])
        drawn += [line(x, TOP, x, HEIGHT - BOTTOM), words(x, HEIGHT - BOTTOM + 18, axis_text(value), anchor="middle")]
    for value in _marks(heights):
        _, y = place(values[0], value)
        drawn += [line(LEFT, y, WIDTH - RIGHT, y), words(LEFT - 6, y + 4, BOOK[figure].text(value), anchor="end")]
    return drawn


def axis_text(value: Any) -> str:
    """A value of an axis as it is written."""
    if is_number(value) and value == int(value):
        return f"{int(value):,}"
    return str(value)


def is_number(value: Any) -> bool:
    """Whether it is a number that can be plotted."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scale(values: Sequence[float]) -> Callable[[float], float]:
    low, high = math.log(min(values)), math.log(max(values))
    return lambda value: 0.5 if high == low else (math.log(value) - low) / (high - low)


def _marks(values: Sequence[float]) -> list[float]:
    """Round values of a logarithmic scale: powers of ten, also 2 and 5 times them if there would be too few."""
    least, most = min(values), max(values)
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        found = [step * 10.0**power for power in powers for step in steps if least <= step * 10.0**power <= most]
        if len(found) > 2:
            return found
    return [least, most] if most > least else [least]
