"""Two profiles side by side, as text or as Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .. import units
from ..analysis.compare import Change, Comparison, ModuleChange, differences
from ..analysis.figures import BOOK
from ..errors import InputError, did_you_mean
from ..files.printable import one_line, printable
from ..results.node import Node
from .markdown import escaped, grid
from .page import Column, Grid, Heading, Lines, Page
from .plain import plain
from .summary import title

FORMATS = ("text", "markdown")
MOST_LINES = 50
OPEN_LINES = 10
"""Changes of modules that a pull request shows at once; the others open with a click."""
_INDEX = re.compile(r"(?<![^.])\d+(?![^.])")


def render(comparison: Comparison, format: str = "text", width: int | None = None) -> str:
    """What changed, figures first, then modules."""
    if format not in FORMATS:
        raise InputError(
            f"A comparison has no format {format!r}.{did_you_mean(format, FORMATS)} Formats: {', '.join(FORMATS)}."
        )
    if format == "markdown":
        return _markdown(comparison)
    return plain(page(comparison), width)


def page(comparison: Comparison) -> Page:
    """What changed, for a terminal: what costs more is red, what costs less is green."""
    heads = (f"before: {title(comparison.before)}", f"after:  {title(comparison.after)}")
    changes = _module_lines(comparison)
    lines = Lines(tuple(text for text, _ in changes), styles=tuple(_style(sign) for _, sign in changes))
    verdict = [Heading(_verdict(comparison))] if comparison.same else []
    return [Lines(heads), *verdict, _figures(comparison), lines, Lines(_notes(comparison))]


def _markdown(comparison: Comparison) -> str:
    items = [f"- {escaped(printable(text))}" for text, _ in _module_lines(comparison)]
    blocks = [f"### {escaped(one_line(title(comparison.after)))}", _verdict(comparison), grid(_figures(comparison))]
    blocks += ["\n".join(items[:OPEN_LINES]), *_folded(items[OPEN_LINES:]), "\n".join(map(escaped, _notes(comparison)))]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _verdict(comparison: Comparison) -> str:
    return "Nothing changed." if comparison.same else ""


def _notes(comparison: Comparison) -> tuple[str, ...]:
    why = comparison.why_no_times
    return (one_line(f"Times are not compared: {why}."),) if why else ()


def _style(sign: float) -> str:
    return "red" if sign > 0 else "green" if sign < 0 else ""


def _folded(items: Sequence[str]) -> list[str]:
    """Items of a list that the reader opens."""
    if not items:
        return []
    number = f"{len(items)} smaller change{'' if len(items) == 1 else 's'}"
    return [f"<details><summary>{number}</summary>", "\n".join(items), "</details>"]


def _shown(change: Change) -> bool:
    """A figure that changed, or that a reader looks for first."""
    return change.changed or (change.name in ("params", "macs", "flops", "latency") and change.before is not None)


def _figures(comparison: Comparison) -> Grid:
    times = not comparison.why_no_times
    changes = [change for change in comparison.figures if _shown(change) and (times or not BOOK[change.name].is_time)]
    return Grid((
        Column("figure", tuple(change.name for change in changes), right=False),
        Column("before", tuple(_texts(change)[0] for change in changes)),
        Column("after", tuple(_texts(change)[1] for change in changes)),
        Column("change", tuple(map(_growth, changes)), styles=tuple(_style(_cost(change)) for change in changes)),
    ))  # fmt: skip


def _cost(change: Change) -> float:
    """Above 0 where a figure changed for the worse, below where it changed for the better."""
    growth = change.growth if change.changed and change.growth is not None else 0.0
    return -growth if BOOK[change.name].more_is_better else growth


def _module_lines(comparison: Comparison) -> list[tuple[str, float]]:
    """A line a change, the heaviest first, and whether it costs more (above 0) or less.

    The same change in the same place of several blocks is one line.
    """
    found: dict[tuple[str, str, str], tuple[list[str], list[float]]] = {}
    for one in differences(comparison):
        what = _changed(one.module) if isinstance(one.module, ModuleChange) else _said(one.module)
        path, verb = one.module.path, one.verb
        paths, weights = found.setdefault((verb, _INDEX.sub("*", path), what), ([], []))
        paths.append(path or "the model itself")
        weights.append(one.weight)
    lines = []
    for (verb, pattern, what), (paths, weights) in sorted(found.items(), key=lambda entry: -abs(sum(entry[1][1]))):
        where = paths[0] if len(paths) == 1 else f"{pattern} ({len(paths)} modules)"
        lines.append((f"{verb:<7} {where}: {what}", sum(weights)))
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], (f"and {more} more changes", 0.0)] if more > 0 else lines


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
    return BOOK[name].text(value)


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
