"""Two profiles side by side, as text or as Markdown for a pull request."""

from __future__ import annotations

from dataclasses import dataclass

from .. import units
from ..analysis.compare import WEIGHED, Change, Comparison, Difference, ModuleChange, differences
from ..analysis.figures import BOOK
from ..errors import check_known
from ..files.printable import one_line, printable
from ..results.node import Node, without_numbers
from .markdown import escaped, grid
from .page import Column, Grid, Heading, Lines, Page
from .plain import plain
from .summary import about, title

FORMATS = ("text", "markdown")
MOST_LINES = 50
DECISIVE = ("params", "peak_bytes", "latency", "step_latency")
"""Figures that a verdict names beside the work of the step."""
MOST = 5
"""Modules in the table of a comment."""
WORDS = {"step_flops": "FLOPs", "params": "params", "activation_bytes": "saved"}
SHARED = "share: of all FLOPs, parameters or saved activations, whichever changes most."


def render(comparison: Comparison, format: str = "text", width: int | None = None) -> str:
    """What changed, figures first, then modules."""
    check_known(format, FORMATS, f"A comparison has no format {format!r}", "Formats:")
    return comment(comparison) if format == "markdown" else plain(page(comparison), width)


def page(comparison: Comparison) -> Page:
    """What changed, for a terminal: what costs more is red, what costs less is green."""
    heads = (f"before: {title(comparison.before)}", f"after:  {title(comparison.after)}")
    changes = module_lines(comparison)
    lines = Lines(tuple(text for text, _ in changes), styles=tuple(_style(sign) for _, sign in changes))
    return [Lines(heads), Heading(verdict(comparison)), figure_grid(comparison), lines, Lines(notes(comparison))]


def verdict(comparison: Comparison) -> str:
    """One sentence: what costs more or less, by how much."""
    if comparison.same:
        return "Nothing changed."
    sides = comparison.before, comparison.after
    work = "step_flops" if all(side.trained for side in sides) else "flops"
    was, now = (BOOK[work].read(side) for side in sides)
    done = Change(work, was, now)
    changes = [
        change
        for change in (done, *(comparison[name] for name in DECISIVE))
        if change.growth and change.changed and not (comparison.why_no_times and BOOK[change.name].is_time)
    ]
    if not changes:
        return "The cost is the same; modules changed."
    signs = {_cost(change) > 0 for change in changes}
    lead = "Some costs grow and some fall" if len(signs) > 1 else "Costs more" if True in signs else "Costs less"
    said = (f"{BOOK[change.name].full} {_growth(change)} ({' to '.join(_texts(change))})" for change in changes)
    return f"{lead}: {', '.join(said)}."


def notes(comparison: Comparison) -> tuple[str, ...]:
    """Why times are not compared; nothing if they are."""
    why = comparison.why_no_times
    return (one_line(f"Times are not compared: {why}."),) if why else ()


def _style(sign: float) -> str:
    return "red" if sign > 0 else "green" if sign < 0 else ""


def _shown(change: Change) -> bool:
    """A figure that changed, or that a reader looks for first."""
    return change.changed or (change.name in ("params", "macs", "flops", "latency") and change.before is not None)


def figure_grid(comparison: Comparison) -> Grid:
    """The figures of the whole before and after."""
    times = not comparison.why_no_times
    changes = [change for change in comparison.figures if _shown(change) and (times or not BOOK[change.name].is_time)]
    return Grid((
        Column("figure", tuple(change.name for change in changes), right=False),
        Column("before", tuple(_texts(change)[0] for change in changes)),
        Column("after", tuple(_texts(change)[1] for change in changes)),
        Column("change", tuple(map(_growth, changes)), styles=tuple(_style(_cost(change)) for change in changes)),
    ))  # fmt: skip


def _cost(change: Change) -> float:
    """Above 0 if a figure changed for the worse, below if it changed for the better."""
    growth = change.growth if change.changed and change.growth is not None else 0.0
    return -growth if BOOK[change.name].more_is_better else growth


@dataclass(frozen=True)
class Row:
    """The same change in the same place of one or several blocks."""

    verb: str
    where: str
    what: str
    """Every figure that changed."""
    brief: str
    """What changed in few words: the class, and shapes that are others."""
    flops: float
    """What the step has more of FLOPs; below 0 what it has less."""
    params: float
    weight: float
    """The largest share of the whole model's figures, with its sign."""
    most: str
    """The figure that has this share."""


def changed_rows(comparison: Comparison) -> list[Row]:
    """A row a change, the heaviest first."""
    found: dict[tuple[str, str, str], list[Difference]] = {}
    for one in differences(comparison):
        what = _changed(one.module) if isinstance(one.module, ModuleChange) else _said(one.module)
        found.setdefault((one.verb, without_numbers(one.module.path), what), []).append(one)
    rows = [_row(verb, pattern, what, alike) for (verb, pattern, what), alike in found.items()]
    return sorted(rows, key=lambda row: -abs(row.weight))


def _row(verb: str, pattern: str, what: str, alike: list[Difference]) -> Row:
    more = dict(zip(WEIGHED, map(sum, zip(*(one.more for one in alike), strict=True)), strict=True))
    shares = dict(zip(WEIGHED, map(sum, zip(*(one.shares for one in alike), strict=True)), strict=True))
    most = max(shares, key=lambda name: abs(shares[name]))
    return Row(
        verb,
        alike[0].module.path or "the model itself" if len(alike) == 1 else f"{pattern} ({len(alike)} modules)",
        what if len(alike) == 1 else f"each {what}",
        _brief(alike[0].module),
        flops=more["step_flops"],
        params=more["params"],
        weight=shares[most],
        most=WORDS[most],
    )


def module_lines(comparison: Comparison) -> list[tuple[str, float]]:
    """A line a change, the heaviest first, and whether it costs more (above 0) or less."""
    lines = [(f"{row.verb:<7} {row.where}: {row.what}", row.weight) for row in changed_rows(comparison)]
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], (f"and {more} more changes", 0.0)] if more > 0 else lines


def _brief(module: Node | ModuleChange) -> str:
    return ", ".join(module.notes) or module.kind if isinstance(module, ModuleChange) else module.kind


def _said(node: Node) -> str:
    figures = f"{units.si(node.params)} params, {units.si(node.macs)} MACs, {units.si(node.flops)} FLOPs"
    return f"{node.kind}, {figures}" if node.kind else figures


def _changed(module: ModuleChange) -> str:
    return ", ".join([*module.notes, *(f"{change.name} {' -> '.join(_texts(change))}" for change in module.changes)])


def _texts(change: Change) -> tuple[str, str]:
    """Both values, with all their digits if three would hide the difference."""
    before, after = ("-" if value is None else BOOK[change.name].text(value) for value in (change.before, change.after))
    if before == after and change.changed:
        return f"{change.before:,}", f"{change.after:,}"
    return before, after


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


# -- the comment on a pull request: a verdict, the modules that changed most, the rest to open


def comment(comparison: Comparison) -> str:
    """The comment; its first line is a mark by which a workflow finds it again."""
    model = one_line(comparison.after.root.kind)
    rows = changed_rows(comparison)
    blocks = [
        f"<!-- flopsight diff of {model.replace('--', '')} -->\n### What this changes in {escaped(model)}",
        f"**{escaped(verdict(comparison))}**",
        *([f"{grid(_modules(rows[:MOST]))}\n\n<sub>{SHARED}</sub>"] if rows else []),
        *_details(comparison, len(rows)),
    ]
    return "\n\n".join(blocks) + "\n"


def _modules(rows: list[Row]) -> Grid:
    return Grid((
        Column("module", tuple(row.where for row in rows), right=False),
        Column("change", tuple(f"{row.verb}: {row.brief}" if row.brief else row.verb for row in rows), right=False),
        Column("FLOPs of the step", tuple(_signed(row.flops) for row in rows)),
        Column("params", tuple(_signed(row.params) for row in rows)),
        Column("share", tuple(f"{row.weight:+.1%} of {row.most}" for row in rows)),
    ))  # fmt: skip


def _signed(more: float) -> str:
    return f"{'+' if more > 0 else '-'}{units.si(abs(more))}" if more else "="


def _details(comparison: Comparison, number: int) -> list[str]:
    """What opens with a click: every figure, every module, and where both profiles were made."""
    items = [f"- {escaped(printable(text))}" for text, _ in module_lines(comparison)]
    said = f"Every figure{f', {number} changed module' + ('' if number == 1 else 's') if number else ''}"
    sides = {"Before": about(comparison.before), "After": about(comparison.after)}
    made = (f"{side}: {where}." for side, where in sides.items() if where)
    ends = [escaped(one_line(line)) for line in (*made, *notes(comparison))]
    inside = [grid(figure_grid(comparison)), "\n".join(items), "\n".join(ends)]
    return [f"<details><summary>{said}</summary>", *filter(None, inside), "</details>"]
