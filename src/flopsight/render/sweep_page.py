"""A sweep as a page: a table of its points, a table of how modules grow along each axis, and a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import units
from ..analysis.figures import BOOK
from ..analysis.growth import Growth
from ..analysis.serving_facts import labels
from ..analysis.sweep_figures import memory_of
from ..distributed.mesh_axes import written
from ..errors import InputError, check_known
from ..files.store import dumps
from ..files.whole_files import as_bytes
from ..hardware.named import named_device
from ..results.sweep import Sweep
from . import latex, markdown
from .formats import PICTURE_SUFFIXES
from .html.static import head, standalone
from .notebook import draw
from .page import Column, Grid, Lines, Page
from .plain import plain
from .rows import csv_text
from .sweep_plot import Row, axis_text, is_number, panels, plotted, present, svg_plots

FORMATS = ("tree", "markdown", "latex", "csv", "json")
SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".tex": "latex", ".txt": "tree", ".html": "html"}
SUFFIXES |= dict.fromkeys(PICTURE_SUFFIXES, "picture")
"""What files of a sweep are called, and what they hold."""
MOST_MODULES = 12
MOST_NOTES = 6
NEXT_TO_NOTHING = 1e-3
LOOK = """
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 1rem; margin: 1rem 0; overflow-x: auto; }
.plots svg { width: 100%; height: auto; }
@media (max-width: 600px) { .plots text { font-size: 19px; } }
@media (prefers-color-scheme: dark) { .plots svg { filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen; } }
"""
WIDE = 10**6
"""Text that no terminal limits."""


def page(sweep: Sweep) -> Page:
    """A line a point, why points failed, for every axis of numbers how the modules grow, and what is assumed."""
    failed = [
        f"{', '.join(f'{axis}={axis_text(point.values[axis])}' for axis in sweep.axes)}: {point.error}"
        for point in sweep.points
        if point.error
    ]
    return [
        _points(sweep),
        Lines(tuple(failed), "yellow"),
        *(part for axis in sweep.axes for part in _growth(sweep, axis)),
        Lines(tuple(_notes(sweep)), "dim"),
    ]


def _notes(sweep: Sweep) -> list[str]:
    """What the labels of times mean, and what the profiles of the points doubt."""
    made = [point.generation for point in sweep.points if point.generation is not None]
    found = labels(made[-1].serving(sweep.device or None)) if made else []
    if sweep.device and not made:
        found.append(
            f"least: the limit on {named_device(sweep.device).name}, unfused; fits: the peak against its memory."
        )
    if dry := [point.counted for point in sweep.points if point.counted and point.counted.dry_run]:
        world = dry[0].world
        axes = f" ({written(world.mesh)})" if world.mesh else ""
        found.append(
            f"Every point is rank {world.rank} of {world.size}{axes}, a dry run: its inputs, parameters and work."
        )
    doubts = dict.fromkeys(str(caveat) for point in sweep.points if point.counted for caveat in point.counted.caveats)
    more = len(doubts) - MOST_NOTES
    found += list(doubts)[:MOST_NOTES]
    if more > 0:
        found.append(f"{more} more note{'s are' if more > 1 else ' is'} in the profiles of the points.")
    return found


def text(sweep: Sweep, format: str = "tree", width: int | None = None) -> str:
    """A sweep in one of the formats that it has."""
    check_known(format, FORMATS, f"A sweep cannot be drawn as {format}", "Formats:")
    if format == "json":
        return dumps(sweep)
    if format == "csv":
        names = [*sweep.axes, *present(sweep.rows), *(["error"] if any(point.error for point in sweep.points) else [])]
        return csv_text(sweep.rows, names)
    if format == "latex":
        return latex.grid(_points(sweep))
    return markdown.draw(page(sweep)) if format == "markdown" else plain(page(sweep), width or WIDE)


def contents(sweep: Sweep, path: Path) -> bytes:
    """What a file of that name holds; without matplotlib an SVG is the plain plots of the page."""
    check_file(path, sweep.axes)
    kind = SUFFIXES[path.suffix]
    if kind != "picture":
        return as_bytes(html(sweep) if kind == "html" else text(sweep, kind))
    if path.suffix == ".svg" and (sweep.device or any(point.generation for point in sweep.points)):
        return as_bytes(svg_plots(sweep))  # several figures, and what does not fit
    try:
        from .pictures.sweep_lines import SweepPictures
    except InputError:
        if path.suffix == ".svg":
            return as_bytes(svg_plots(sweep))
        raise
    return SweepPictures(sweep).lines().encoded(path.suffix.removeprefix("."))


def html(sweep: Sweep) -> str:
    """What fits, the range of each figure, the plots and the tables as one HTML file."""
    name, varied = _title(sweep)
    pictures = "".join(panels(sweep)) if _has_numbers(sweep.axes) else ""
    plots = f'<div class="plots">{pictures}</div>' if pictures else ""
    counted = [row for row, point in zip(sweep.rows, sweep.points, strict=True) if not point.error]
    fitting = [row for row in counted if row.get("fits") is not False]
    top = head(name, varied, _verdict(sweep, len(counted), fitting), _tiles(sweep, fitting))
    return standalone(f"{name}: {varied}", f"{top}{plots}{draw(page(sweep))}", LOOK)


def _verdict(sweep: Sweep, counted: int, fitting: Sequence[Row]) -> str:
    """How many points there are or fit, and which of these makes most tokens a second."""
    known = sweep.device and any("fits" in row for row in fitting)
    done = f"fit {named_device(sweep.device).name}" if known else "counted"
    said = f"{len(fitting) if known else counted} of {len(sweep.points)} points {done}"
    for key in plotted(sweep):
        if BOOK[key].unit == "tokens/s" and any(row.get(key) for row in fitting):
            best = max(fitting, key=lambda row: row.get(key) or 0)
            at = ", ".join(f"{axis}={axis_text(best[axis])}" for axis in sweep.axes)
            said += f"; {BOOK[key].full}: {BOOK[key].text(best[key])} at {at}"
    return said


def _tiles(sweep: Sweep, fitting: Sequence[Row]) -> list[tuple[str, str, str]]:
    """From the least to the most of every plotted figure, over the points that fit."""
    found, memory = [], memory_of(sweep.device)
    for key in plotted(sweep):
        known, values = BOOK[key], [row[key] for row in fitting if row.get(key) is not None]
        ends = dict.fromkeys(known.text(pick(values)) for pick in (min, max) if values)
        note = f"of {units.size(memory)}" if memory and key == "peak_bytes" else ""
        found.append((known.full[:1].upper() + known.full[1:], " to ".join(ends) or "-", note))
    return found


def _title(sweep: Sweep) -> tuple[str, str]:
    """The model; what varies, and the device."""
    counted = next((point.counted for point in sweep.points if point.counted is not None), None)
    made = next((point.generation for point in sweep.points if point.generation is not None), None)
    varied = ", ".join(f"{axis} {_span(values)}" for axis, values in sweep.axes.items())
    new = f", {made.new_tokens:,} new tokens" if made is not None else ""
    device = f" on {named_device(sweep.device).name}" if sweep.device else ""
    return counted.root.kind if counted is not None else "Sweep", f"{varied}{new}{device}"


def _span(values: Sequence[Any]) -> str:
    texts = [axis_text(value) for value in values]
    return f"{texts[0]} to {texts[-1]}" if len(texts) > 1 and is_number(values[0]) else ", ".join(texts)


def check_file(path: Path, axes: Mapping[str, Sequence[Any]]) -> None:
    """Refuse a file whose suffix says no format of a sweep, and a plot of a sweep that varies no numbers."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"The suffix of {path} says no format of a sweep; it can be {', '.join(SUFFIXES)}.")
    if SUFFIXES[path.suffix] == "picture" and not _has_numbers(axes):
        raise InputError(f"A plot needs an axis of numbers; {', '.join(axes)} has none. Write .csv, .md or .txt.")


def _points(sweep: Sweep) -> Grid:
    """One line a point; a figure that no point has is left out."""
    columns = [Column(axis, tuple(axis_text(row[axis]) for row in sweep.rows), keep=100) for axis in sweep.axes]
    for key in present(sweep.rows):
        values = [row.get(key) for row in sweep.rows]
        cells = tuple("-" if value is None else BOOK[key].text(value) for value in values)
        columns.append(Column(BOOK[key].short, cells, keep=90 - len(columns)))
    return Grid(tuple(columns))


def _growth(sweep: Sweep, axis: str) -> Page:
    """Which share of each module's FLOPs is constant, linear and quadratic along an axis, the largest modules first."""
    growths, values = sweep.growth(axis), [value for value, _ in sweep.along(axis)]
    if not growths or _is_linear(list(growths.values())):
        return []
    most = list(growths.items())[:MOST_MODULES]
    doubts = tuple("" if one.exact else "not confirmed" if one.on_curve else "not a polynomial" for _, one in most)
    grid = Grid((
        Column("module", tuple(name or "the root" for name, _ in most), right=False),
        Column(f"{'prefill ' if any(point.generation for point in sweep.points) else ''}FLOPs at {axis}={axis_text(max(values))}", tuple(units.si(one.total) for _, one in most), keep=9),
        *(Column(part, tuple(_share(getattr(one, part), one.total) if one.plausible else "-" for _, one in most), keep=8) for part in ("constant", "linear", "quadratic")),
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


def _has_numbers(axes: Mapping[str, Sequence[Any]]) -> bool:
    return any(is_number(value) for values in axes.values() for value in values)


def _is_linear(growths: Sequence[Growth]) -> bool:
    """Whether twice the size is twice the work, but for modules that do next to nothing."""
    whole = sum(one.total for one in growths)
    return sum(one.total for one in growths if not (one.exact and one.linear == one.total)) < NEXT_TO_NOTHING * whole


def _share(part: float, whole: float) -> str:
    return units.percent(part / whole) if part > 0 else "0" if not part else f"-{units.percent(-part / whole)}"
