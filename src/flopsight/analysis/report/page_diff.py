"""The data of the page that compares two profiles: figures, and modules ranked by what their change weighs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ... import units
from ...results.node import Node
from ..compare import Change, Comparison
from ..figures import FIGURES
from ..tables import own_params
from .page_data import Metric, Value, grid, report

TILES = {
    "params": "Parameters", "flops": "Forward FLOPs", "backward_flops": "Backward FLOPs", "activation_bytes": "Saved",
    "peak_bytes": "Peak memory", "step_latency": "Step", "latency": "Forward",
}  # fmt: skip
"""Figures at the top of the page, and what they are called there."""


def diff_report(comparison: Comparison) -> dict[str, Any]:
    """Everything that the page draws of a comparison: what changed, then the later profile's modules."""
    page = report(comparison.after, _growth(comparison))
    place = {path: number for number, path in enumerate(page["modules"]["path"])}
    rows = _ranked(comparison)
    columns = [
        ("module", "text"), ("class", "text"), ("what happened", "text"), ("change in FLOPs", "count"),
        ("change in params", "count"), ("change in saved bytes", "bytes"),
    ]  # fmt: skip
    page["diff"] = [
        _figures(comparison),
        grid("Modules, heaviest change first", columns, rows, [place.get(row[0], -1) for row in rows],
             "A row holds what the module itself does; rows of new and removed modules hold their submodules too."),
    ]  # fmt: skip
    if comparison.why_no_times:
        page["caveats"].append({"text": f"Times are not compared: {comparison.why_no_times}.", "touches": "time"})
    return page


def _figures(comparison: Comparison) -> dict[str, Any]:
    shown = [
        change
        for change in comparison.figures
        if change.before is not None or change.after is not None
        if not (comparison.why_no_times and FIGURES[change.name].is_time)
    ]
    columns = [("figure", "text"), ("before", "number"), ("after", "number"), ("change", "growth")]
    return grid("Figures of the whole", columns, [_figure(change) for change in shown])


def _figure(change: Change) -> list[Any]:
    known = FIGURES[change.name]
    texts = ["" if value is None else known.text(value) for value in (change.before, change.after)]
    return [change.name.replace("_", " "), *texts, _relative(change)]


def _relative(change: Change) -> float | None:
    """By what share a figure really changed; None where it was nothing or is not known."""
    growth = change.growth
    if growth is None or growth == float("inf"):
        return None
    return growth if change.changed else 0.0


def diff_tiles(comparison: Comparison) -> list[dict[str, str]]:
    """The changed figures that a reader asks for first, each with both values."""
    found = []
    for name, label in TILES.items():
        change = comparison[name]
        growth = _relative(change)
        if (
            growth is None
            or change.before is None
            or change.after is None
            or (FIGURES[name].is_time and comparison.why_no_times)
        ):
            continue
        values = (
            f"{FIGURES[name].text(change.before)} to {FIGURES[name].text(change.after)}"
            if growth
            else FIGURES[name].text(change.after)
        )
        worse = -growth if FIGURES[name].more_is_better else growth
        tone = "grew" if worse > 0 else "fell" if worse < 0 else ""
        found.append(
            {"label": label, "value": f"{growth:+.1%}" if growth else "=", "note": values, "touches": "", "tone": tone}
        )
    return found


def diff_verdict(comparison: Comparison) -> str:
    """The heaviest change in one line."""
    if comparison.same:
        return "Nothing changed."
    rows = _ranked(comparison)
    if not rows:
        return f"{sum(change.changed for change in comparison.figures)} figures of the whole changed, no module did."
    path, kind, what, flops, params, _ = rows[0]
    by = [
        f"{'+' if value > 0 else ''}{units.si(value)} {unit}"
        for value, unit in ((flops, "FLOPs"), (params, "params"))
        if value
    ]
    place = f"Heaviest of {len(rows)} changes" if len(rows) > 1 else "One change"
    return f"{place}: {path or kind} ({kind}), {what}{': ' if by else ''}{', '.join(by)}"


def _ranked(comparison: Comparison) -> list[list[Any]]:
    """Modules by what their change weighs, the heaviest first."""
    return sorted(_modules(comparison), key=lambda row: -max(abs(row[3]), abs(row[4])))


def _modules(comparison: Comparison) -> Iterator[list[Any]]:
    for node in comparison.added:
        yield [node.path, node.kind, "new", node.total.total.flops, node.params, node.activation_bytes]
    for node in comparison.removed:
        yield [node.path, node.kind, "removed", -node.total.total.flops, -node.params, -node.activation_bytes]
    old, new = comparison.before.nodes, comparison.after.nodes
    for module in comparison.modules:
        one, other = old[comparison.counterparts[module.path]], new[module.path]
        yield [
            module.path,
            module.kind,
            "; ".join(module.notes) or "changed",
            other.own.total.flops - one.own.total.flops,
            own_params(other) - own_params(one),
            other.own_activation_bytes - one.own_activation_bytes,
        ]


def _growth(comparison: Comparison) -> tuple[Metric, ...]:
    """What each module's subtree has more than before; a new module has all of it more."""
    old, was = comparison.before.nodes, comparison.counterparts

    def more(read: Callable[[Node], int]) -> Callable[[Node], Value]:
        return lambda node: read(node) - (read(old[was[node.path]]) if node.path in was else 0)

    return (
        Metric("more_flops", "change in FLOPs", "count", "FLOPs of all phases, after minus before",
               more(lambda node: node.total.total.flops), adds=False),
        Metric("more_params", "change in params", "count", "Parameters, after minus before",
               more(lambda node: node.params), adds=False),
    )  # fmt: skip
