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
OPEN_LINES = 10
"""Changes of modules that a pull request shows at once; the others open with a click."""
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
        items = [f"- {escaped(line)}" for line in lines]
        blocks = [head, verdict, grid(figures), "\n".join(items[:OPEN_LINES]), *_folded(items[OPEN_LINES:])]
        blocks += ["\n".join(map(escaped, notes))]
        return "\n\n".join(block for block in blocks if block) + "\n"
    page: Page = [Lines(heads), Heading(verdict), Grid(tuple(figures)), Lines(tuple(lines)), Lines(tuple(notes))]
    return plain(page, width)


def _folded(items: Sequence[str]) -> list[str]:
    """Items of a list that the reader opens."""
    if not items:
        return []
    number = f"{len(items)} smaller change{'' if len(items) == 1 else 's'}"
    return [f"<details><summary>{number}</summary>", "\n".join(items), "</details>"]


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
    """A line a change, the heaviest first; the same change in the same place of several blocks is one line."""
    whole = _Whole(comparison)
    found: dict[tuple[str, str, str], tuple[list[str], list[float]]] = {}
    for verb, path, what, weight in (
        *(("added", node.path, _said(node), whole.of_node(node)) for node in comparison.added),
        *(("removed", node.path, _said(node), whole.of_node(node)) for node in comparison.removed),
        *(("changed", module.path, _changed(module), whole.of_changes(module)) for module in comparison.modules),
    ):
        paths, weights = found.setdefault((verb, _INDEX.sub("*", path), what), ([], []))
        paths.append(path or "the model itself")
        weights.append(weight)
    lines = []
    for (verb, pattern, what), (paths, _) in sorted(found.items(), key=lambda entry: -sum(entry[1][1])):
        where = paths[0] if len(paths) == 1 else f"{pattern} ({len(paths)} modules)"
        lines.append(f"{verb:<7} {where}: {what}")
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], f"and {more} more changes"] if more > 0 else lines


class _Whole:
    """Weighs a change: the largest share that it has of the model's FLOPs, parameters or saved bytes."""

    def __init__(self, comparison: Comparison) -> None:
        roots = comparison.before.root, comparison.after.root
        self._flops = max(1, *(root.total.total.flops for root in roots))
        self._params = max(1, *(root.params for root in roots))
        self._saved = max(1, *(root.activation_bytes for root in roots))

    def of_node(self, node: Node) -> float:
        """The weight of a module that is new or gone."""
        return self._largest(node.total.total.flops, node.params, node.activation_bytes)

    def of_changes(self, module: ModuleChange) -> float:
        """The weight of what changed in a module itself."""
        by = {change.name: (change.after or 0) - (change.before or 0) for change in module.changes}
        work = sum(by.get(name, 0) for name in ("flops", "backward_flops", "recompute_flops"))
        return self._largest(work, by.get("params", 0), by.get("activation_bytes", 0))

    def _largest(self, flops: float, params: float, saved: float) -> float:
        return max(abs(flops) / self._flops, abs(params) / self._params, abs(saved) / self._saved)


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
