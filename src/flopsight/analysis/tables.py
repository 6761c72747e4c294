"""Which rows a view has: plain data that the renderers draw and the tests read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import check_known
from ..results.costs import FREE, Cost, OpRow, summed
from ..results.node import Node
from ..results.profile import Profile
from ..results.records import OUTSIDE, Parameter, Shape
from .figures import Value, shown
from .folding import times
from .merging import Group

DOING = ("flops", "backward_pass_flops", "params", "activation_bytes")
"""Figures of which a module that does something itself has one."""
SHARED = ("flops", "latency")
"""Figures of a row whose share of the whole stands beside them."""
SORTS = {
    "flops": "flops", "macs": "macs", "params": "params", "backward_flops": "backward_pass_flops",
    "activation_bytes": "activation_bytes", "latency": "latency",
}  # fmt: skip
"""What `--sort` takes, and the figure that it sorts by."""


@dataclass(frozen=True)
class TableRow:
    """One line about a module, or about several that are drawn as one."""

    path: str
    name: str
    kind: str
    depth: int
    times: int
    """Like modules that the row stands for."""
    calls: int
    figures: Mapping[str, Value]
    """The figures of the view `rows`, by key."""
    shares: Mapping[str, float | None]
    """The share of the whole that each figure in `SHARED` is."""
    output_shapes: tuple[Shape, ...]
    mark: str
    """`ignored`, `not called`, or nothing."""
    hidden: int
    """Rows below this one that are not drawn."""
    unknown: int
    """Op calls in the module itself that no figure includes."""
    first: bool
    """Whether the modules that the row stands for become one here, not further up."""

    def __getitem__(self, key: str) -> Value:
        return self.figures[key]


def tree_rows(root: Node) -> list[TableRow]:
    """Every node in the order of the model, with the figures of its subtree."""
    return _rows(root, {figure.key: figure.of_node for figure in shown("rows") if figure.of_node})


def own_rows(root: Node, sort: str = "flops", telling: Sequence[str] = DOING) -> list[TableRow]:
    """The modules that do something themselves, by the `telling` figures, heaviest first, with their own figures: the column adds up."""
    rows = _rows(root, {figure.key: figure.of_own for figure in shown("rows") if figure.of_own})
    rows = [row for row in rows if any(row[key] for key in telling) or row.mark or row.unknown]
    if sort == "model":
        return rows
    check_known(sort, ["model", *SORTS], f"There is no order {sort!r}", "Orders:")
    return sorted(rows, key=lambda row: row[SORTS[sort]] or 0, reverse=True)


@dataclass(frozen=True)
class KindTotals:
    """The figures of all modules of one class at one depth."""

    parameters: dict[int, Parameter] = field(default_factory=dict)
    cost: Cost = FREE
    latency: float = 0.0
    activation_bytes: int = 0

    @property
    def params(self) -> int:
        """Elements of the distinct parameter tensors."""
        return sum(parameter.numel for parameter in self.parameters.values())


def depth_table(root: Node, limit: int | None = None) -> list[dict[str, KindTotals]]:
    """For each depth down to `limit`, or to the deepest, the figures by class name."""
    table: list[dict[str, KindTotals]] = []
    for node, depth, _ in with_depths(root):
        if node.path == OUTSIDE or (limit is not None and depth > limit):
            continue
        if depth == len(table):
            table.append({})
        so_far = table[depth].get(node.kind, KindTotals())
        table[depth][node.kind] = KindTotals(
            so_far.parameters | {p.key: p for p in node.distinct_parameters},
            so_far.cost + node.forward,
            so_far.latency + (node.latency or 0.0),
            so_far.activation_bytes + activation(node),
        )
    return table


def op_totals(root: Node) -> list[OpRow]:
    """Every op by phase over the whole profile, most time first, then most FLOPs and bytes; other fields are those of its first row."""
    found = summed(((row.op, row.phase, row.status), row) for node in root.walk() for row in node.ops)
    return sorted(found.values(), key=lambda one: (-(one.seconds or 0), -one.cost.flops, -one.cost.bytes, one.op))


def records(profile: Profile) -> list[dict[str, str | int | float | bool | None]]:
    """One flat record a module with every figure, raw: for CSV and data frames."""
    known = {figure.key: figure.of_node for figure in shown("csv") if figure.of_node}
    return [
        {
            "path": node.path, "name": node.name, "kind": node.kind, "depth": depth, "calls": node.calls, "called": node.called,
            "ignored": node.ignored, **{key: read(node) for key, read in known.items()},
            "input_shapes": str([list(shape) for shape in node.input_shapes]),
            "output_shapes": str([list(shape) for shape in node.output_shapes]),
        }
        for node, depth, _ in with_depths(profile.root)
    ]  # fmt: skip


def with_depths(root: Node) -> Iterator[tuple[Node, int, Node | None]]:
    """Every node with its depth and its parent, parents first."""
    waiting: list[tuple[Node, int, Node | None]] = [(root, 0, None)]
    while waiting:
        node, depth, parent = waiting.pop()
        yield node, depth, parent
        waiting.extend((child, depth + 1, node) for child in reversed(node.children))


def modules(children: Iterable[Node]) -> list[Node]:
    """Those nodes that are modules: what ran outside every module is none."""
    return [child for child in children if child.path != OUTSIDE]


def mark(node: Node) -> str:
    """Why a row's figures are zero: `ignored` or `not called`; empty for every other row."""
    if node.ignored:
        return "ignored"
    # work may be placed in a module whose forward was called by hand: that is not a call, but not idle either
    return "" if node.called or node.total.total.flops or node.path == OUTSIDE else "not called"


def activation(node: Node) -> int:
    """Growth of allocated memory during the forward if the device reports it, else what was saved for backward."""
    return node.activation_bytes if node.allocated_bytes is None else node.allocated_bytes


def _rows(root: Node, known: Mapping[str, Callable[[Node], Value]]) -> list[TableRow]:
    whole = {figure.key: figure.of_node(root) for figure in shown("rows") if figure.of_node and figure.key in SHARED}
    return [
        _row(node, depth, parent, {key: read(node) for key, read in known.items()}, whole)
        for node, depth, parent in with_depths(root)
    ]


def _row(
    node: Node, depth: int, parent: Node | None, figures: Mapping[str, Value], whole: Mapping[str, Value]
) -> TableRow:
    return TableRow(
        path=node.path,
        name=node.name,
        kind=node.kind,
        depth=depth,
        times=times(node),
        calls=node.calls,
        figures=figures,
        shares={key: _share(figures[key], of) for key, of in whole.items()},
        output_shapes=node.output_shapes,
        mark=mark(node),
        hidden=node.hidden if isinstance(node, Group) else 0,
        unknown=sum(row.calls for row in node.ops if row.status == "unknown"),
        first=parent is None or times(parent) != times(node),
    )


def _share(value: Value, whole: Value) -> float | None:
    """A part of a whole that may be nothing, or not known."""
    if value is None or whole is None:
        return None
    return value / whole if whole else 0.0
