"""The data of the page that compares two profiles: figures, and modules ranked by what their change weighs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ... import units
from ...results.node import Node
from ..compare import Change, Comparison, ModuleChange, differences, shares
from ..figures import BOOK, Figure, Value
from .page_data import Stacks, by_stack, grid, report
from .page_step import step_of

TILES = ("params", "flops", "backward_flops", "activation_bytes", "peak_bytes", "step_latency", "latency")
"""Figures at the top of the page."""


def diff_report(comparison: Comparison) -> dict[str, Any]:
    """Everything that the page draws of a comparison: what changed, then the later profile's modules."""
    step = step_of(comparison.after)
    page = report(comparison.after, step, [step.figure(), *_growth(comparison)])
    page["diff"] = [_figures(comparison), _changes(comparison)]
    if comparison.why_no_times:
        page["caveats"].append({"text": f"Times are not compared: {comparison.why_no_times}.", "touches": "time"})
    return page


def _changes(comparison: Comparison) -> dict[str, Any]:
    """Modules by what their change weighs, the heaviest first; blocks of a stack that changed alike are one row."""
    columns = [
        ("module", "text"), ("class", "text"), ("what happened", "text"),
        ("change in FLOPs of the step", "count"), ("change in params", "count"), ("change in saved bytes", "bytes"),
    ]  # fmt: skip
    rows, stacks = [], Stacks(comparison.before.root, comparison.after.root)
    for found in differences(comparison):
        notes = found.module.notes if isinstance(found.module, ModuleChange) else ()
        what = "new" if found.verb == "added" else "; ".join(notes) or found.verb
        rows.append((found.module.path, found.weight, (found.module.kind, what, *found.more)))
    about = (
        "By the largest share that a change is of the model's FLOPs, params or saved bytes. A row holds what the module "
        "itself does; rows of new and removed modules hold their submodules too."
    )
    page = by_stack("Modules, heaviest change first", columns, rows, stacks, about)
    there = {stacks.row[path] for path in comparison.after.nodes}
    page["modules"] = [row if row in there else None for row in page["modules"]]
    return page


def _figures(comparison: Comparison) -> dict[str, Any]:
    shown = [
        change
        for change in comparison.figures
        if change.before or change.after
        if not (comparison.why_no_times and BOOK[change.name].is_time)
    ]
    columns = [("figure", "text"), ("before", "number"), ("after", "number"), ("change", "growth")]
    return grid("Figures of the whole", columns, [_figure(change) for change in shown])


def _figure(change: Change) -> list[Any]:
    known = BOOK[change.name]
    texts = ["" if value is None else known.text(value) for value in (change.before, change.after)]
    return [known.full, *texts, _relative(change)]


def _relative(change: Change) -> float | None:
    """By what share a figure really changed; None if it was nothing or is not known."""
    growth = change.growth
    if growth is None or growth == float("inf"):
        return None
    return growth if change.changed else 0.0


def diff_tiles(comparison: Comparison) -> list[dict[str, str]]:
    """The changed figures that a reader asks for first, each with both values."""
    found = []
    for name in TILES:
        change, known = comparison[name], BOOK[name]
        growth, before, after = _relative(change), change.before, change.after
        if growth is None or before is None or after is None or (known.is_time and comparison.why_no_times):
            continue
        values = f"{known.text(before)} to {known.text(after)}" if growth else known.text(after)
        worse = -growth if known.more_is_better else growth
        found.append({
            "label": known.full[:1].upper() + known.full[1:], "value": f"{growth:+.1%}" if growth else "=", "note": values,
            "touches": "", "tone": "grew" if worse > 0 else "fell" if worse < 0 else "",
        })  # fmt: skip
    return found


def diff_verdict(comparison: Comparison) -> str:
    """The heaviest change in one line, first the figure that makes it the heaviest and its share of the model's."""
    if comparison.same:
        return "Nothing changed."
    rows = _changes(comparison)["rows"]
    if not rows:
        return f"{sum(change.changed for change in comparison.figures)} figures of the whole changed, no module did."
    path, kind, what, *more = rows[0]
    texts = (units.si, units.si, units.size), ("FLOPs of the step", "params", "saved")
    parts = sorted(zip(shares(comparison, more), more, *texts, strict=True), key=lambda part: -abs(part[0]))
    by = [f"{'+' if value > 0 else ''}{text(value)} {unit}" for _, value, text, unit in parts if value]
    by[:1] = [f"{first} ({units.percent(abs(parts[0][0]))})" for first in by[:1]]
    place = f"Heaviest of {len(rows)} changes" if len(rows) > 1 else "One change"
    return f"{place}: {path} ({kind}), {what}{': ' if by else ''}{', '.join(by)}"


def _growth(comparison: Comparison) -> Iterator[Figure]:
    """What each module's subtree has more than before; a new module has all of it more."""
    old, was = comparison.before.nodes, comparison.counterparts

    def more(read: Callable[[Node], Value], node: Node) -> Value:
        return (read(node) or 0) - ((read(old[was[node.path]]) or 0) if node.path in was else 0)

    for key, name, what in (
        ("step_flops", "FLOPs of the step", "FLOPs of all phases"),
        ("params", "params", "parameters"),
    ):
        about, read = f"{what}, after minus before", partial(more, BOOK[key].of_node or (lambda _node: None))
        yield Figure(
            f"more_{key.removeprefix('step_')}",
            f"change in {name}",
            "count",
            about,
            None,
            read,
            adds=False,
            views="page open",
        )
