"""The data of the page that compares two profiles: figures, and modules ranked by what their change weighs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..tree import Node
from .compare import Change, Comparison
from .figures import FIGURES
from .report import Metric, Value, grid, report
from .tables import own_params


def diff_report(comparison: Comparison) -> dict[str, Any]:
    """Everything that the page draws of a comparison: what changed, then the later profile's modules."""
    page = report(comparison.after, _growth(comparison))
    place = {path: number for number, path in enumerate(page["modules"]["path"])}
    rows = sorted(_modules(comparison), key=lambda row: -max(abs(row[3]), abs(row[4])))
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
    columns = [
        ("figure", "text"),
        ("before", "text"),
        ("after", "text"),
        ("change", "text"),
        ("change, relative", "share"),
    ]
    return grid("Figures of the whole", columns, [_figure(change) for change in shown])


def _figure(change: Change) -> list[Any]:
    known = FIGURES[change.name]
    texts = ["" if value is None else known.text(value) for value in (change.before, change.after)]
    growth = change.growth
    relative = None if growth is None or growth in (float("inf"), float("-inf")) else growth
    return [change.name, *texts, "changed" if change.changed else "same", relative]


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
