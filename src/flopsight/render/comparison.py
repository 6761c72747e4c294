"""Two profiles side by side, as text or as Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .. import units
from ..analysis.compare import Change, Comparison, ModuleChange
from ..analysis.figures import FIGURES
from ..errors import InputError, did_you_mean
from ..printable import one_line, printable
from ..tree import Node
from .markdown import escaped, grid
from .page import Column, Grid, Heading, Lines, Page
from .plain import plain
from .summary import title

FORMATS = ("text", "markdown")
MOST_LINES = 50
_INDEX = re.compile(r"(?<![^.])\d+(?![^.])")


def render(comparison: Comparison, format: str = "text", width: int | None = None) -> str:
    """What changed, figures first, then modules."""
    if format not in FORMATS:
        raise InputError(
            f"A comparison has no format {format!r}.{did_you_mean(format, FORMATS)} Formats: {', '.join(FORMATS)}."
        )
    heads = (f"before: {one_line(title(comparison.before))}", f"after:  {one_line(title(comparison.after))}")
    figures = _figures(
        [
            change
            for change in comparison.figures
            if _shown(change) and not (comparison.why_no_times and FIGURES[change.name].is_time)
        ]
    )
    lines = [printable(line) for line in _module_lines(comparison)]
    verdict = "Nothing changed." if comparison.same else ""
    notes = [one_line(f"Times are not compared: {comparison.why_no_times}.")] if comparison.why_no_times else []
    if format == "markdown":
        head = f"### {escaped(one_line(title(comparison.after)))}"
        listed = "\n".join(f"- {escaped(line)}" for line in lines)
        blocks = [head, verdict, grid(figures), listed, "\n".join(map(escaped, notes))]
        return "\n\n".join(block for block in blocks if block) + "\n"
    page: Page = [Lines(heads), Heading(verdict), Grid(tuple(figures)), Lines(tuple(lines)), Lines(tuple(notes))]
    return plain(page, width)


def _shown(change: Change) -> bool:
    """A figure that changed, or that a reader looks for first."""
    return change.changed or (change.name in ("params", "macs", "flops", "latency") and change.before is not None)


def _figures(changes: Sequence[Change]) -> list[Column]:
    return [
        Column("figure", tuple(change.name for change in changes), right=False),
        Column("before", tuple(_texts(change)[0] for change in changes)),
        Column("after", tuple(_texts(change)[1] for change in changes)),
        Column("change", tuple(_growth(change) for change in changes)),
    ]


def _module_lines(comparison: Comparison) -> list[str]:
    """A line a change; the same change in the same place of several blocks is one line."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for verb, path, what in (
        *(("added", node.path, _said(node)) for node in comparison.added),
        *(("removed", node.path, _said(node)) for node in comparison.removed),
        *(("changed", module.path, _changed(module)) for module in comparison.modules),
    ):
        found.setdefault((verb, _INDEX.sub("*", path), what), []).append(path or "the model itself")
    lines = []
    for (verb, pattern, what), paths in found.items():
        where = paths[0] if len(paths) == 1 else f"{pattern} ({len(paths)} modules)"
        lines.append(f"{verb:<7} {where}: {what}")
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"and {more} more changes"] if more > 0 else lines


def _said(node: Node) -> str:
    figures = f"{units.si(node.params)} params, {units.si(node.macs)} MACs, {units.si(node.flops)} FLOPs"
    return f"{node.kind}, {figures}" if node.kind else figures


def _changed(module: ModuleChange) -> str:
    return ", ".join([*module.notes, *(f"{change.name} {' -> '.join(_texts(change))}" for change in module.changes)])


def _texts(change: Change) -> tuple[str, str]:
    """Both values, with all their digits where three would hide the difference."""
    before, after = _text(change.name, change.before), _text(change.name, change.after)
    if before == after and change.changed:
        return f"{change.before:,}", f"{change.after:,}"
    return before, after


def _text(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return FIGURES[name].text(value) if name in FIGURES else units.si(value)


def _growth(change: Change) -> str:
    growth = change.growth
    if growth is None:
        return ""
    if growth == float("inf"):
        return "new"
    if not growth:
        return "="
    small = f"{growth:+.1%}" if abs(growth) >= 0.001 else f"{growth:+.1e}"
    return small if change.changed else f"{small} (noise)"
