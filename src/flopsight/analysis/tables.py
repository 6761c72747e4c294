"""Which rows a view has: plain data that the renderers draw and the tests read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ..errors import InputError, did_you_mean
from ..results.costs import FREE, Cost, Phases
from ..results.node import Node
from ..results.profile import Profile
from ..results.records import OUTSIDE, Parameter, Shape
from .folding import times
from .merging import Group, known_sum


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
    params: int
    active_params: int | None
    """Those that one token passes; None if that is not known."""
    macs: int
    flops: int
    flops_share: float
    backward_flops: int
    activation_bytes: int
    latency: float | None
    latency_share: float | None
    backward_latency: float | None
    output_shapes: tuple[Shape, ...]
    mark: str
    """`ignored`, `not called`, or nothing."""
    hidden: int
    """Rows below this one that are not drawn."""
    unknown: int
    """Op calls in the module itself that no figure includes."""
    first: bool
    """Whether the modules that the row stands for become one here, not further up."""


def tree_rows(root: Node) -> list[TableRow]:
    """Every node in the order of the model, with the figures of its subtree."""
    return [
        _row(node, depth, parent, root, node.total, _params(node), node.activation_bytes, _latencies(node))
        for node, depth, parent in with_depths(root)
    ]


def own_rows(root: Node, sort: str = "flops") -> list[TableRow]:
    """The modules that do something themselves, heaviest first, with their own figures: the column adds up."""
    rows = [
        _row(node, depth, parent, root, node.own, _own_params(node), node.own_activation_bytes, own_latencies(node))
        for node, depth, parent in with_depths(root)
    ]
    rows = [
        row
        for row in rows
        if row.flops or row.backward_flops or row.params or row.activation_bytes or row.mark or row.unknown
    ]
    if sort == "model":
        return rows
    if sort not in SORTS:
        known = ["model", *SORTS]
        raise InputError(f"There is no order {sort!r}.{did_you_mean(sort, known)} Orders: {', '.join(known)}.")
    return sorted(rows, key=SORTS[sort], reverse=True)


SORTS: dict[str, Callable[[TableRow], float]] = {
    "flops": lambda row: row.flops,
    "macs": lambda row: row.macs,
    "params": lambda row: row.params,
    "backward_flops": lambda row: row.backward_flops,
    "activation_bytes": lambda row: row.activation_bytes,
    "latency": lambda row: row.latency or 0.0,
}


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


@dataclass(frozen=True)
class OpTotal:
    """All calls of one op in one phase, over the whole profile."""

    op: str
    phase: str
    status: str
    calls: int
    cost: Cost
    seconds: float | None = None
    """Measured: of its kernels on a device, of the op on the host in a traced run on a CPU."""


def op_totals(root: Node) -> list[OpTotal]:
    """Every op by phase, most FLOPs first, then most bytes."""
    found: dict[tuple[str, str, str], tuple[int, Cost, float | None]] = {}
    for node in root.walk():
        for row in node.ops:
            key = row.op, row.phase, row.status
            calls, cost, seconds = found.get(key, (0, FREE, None))
            found[key] = calls + row.calls, cost + row.cost, known_sum((seconds, row.seconds))
    totals = [OpTotal(*key, calls, cost, seconds) for key, (calls, cost, seconds) in found.items()]
    return sorted(totals, key=lambda total: (-total.cost.flops, -total.cost.bytes, total.op))


def records(profile: Profile) -> list[dict[str, str | int | float | bool | None]]:
    """One flat record a module with every figure, raw: for CSV and data frames."""
    return [
        {
            "path": node.path, "name": node.name, "kind": node.kind, "depth": depth, "calls": node.calls, "called": node.called,
            "ignored": node.ignored, "params": node.params, "active_params": node.active_params, "trainable_params": node.trainable_params,
            "param_bytes": node.param_bytes, "macs": node.macs, "flops": node.flops, "bytes": node.forward.bytes,
            "backward_macs": node.backward.macs, "backward_flops": node.backward.flops, "recompute_flops": node.recompute.flops,
            "optimizer_flops": node.optimizer.flops, "own_macs": node.own.macs, "own_flops": node.own.flops,
            "own_bytes": node.own.bytes, "activation_bytes": node.activation_bytes, "allocated_bytes": node.allocated_bytes,
            "grad_bytes": node.grad_bytes, "optimizer_bytes": node.optimizer_bytes, "peak_bytes": node.peak_bytes,
            "latency": node.latency, "backward_latency": node.backward_latency, "host_latency": node.host_latency,
            "stream_latency": node.stream_latency, "idle": node.idle, "flops_per_second": node.flops_per_second,
            "wall_flops_per_second": node.wall_flops_per_second,
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
    # work may be placed in a module whose forward was called by hand: that is no call, but not idle either
    return "" if node.called or node.total.total.flops or node.path == OUTSIDE else "not called"


def activation(node: Node) -> int:
    """Growth of allocated memory during the forward where the device reports it, else what was saved for backward."""
    return node.activation_bytes if node.allocated_bytes is None else node.allocated_bytes


Times = tuple[float | None, float | None]
"""Seconds of forward and of backward."""


def _latencies(node: Node) -> Times:
    return node.latency, node.backward_latency


def own_latencies(node: Node) -> Times:
    """Never below zero, though clocks are not exact."""
    below = zip(*map(_latencies, node.children), strict=True) if node.children else ((), ())
    forward, backward = (
        None if whole is None else max(0.0, whole - (known_sum(parts) or 0.0))
        for whole, parts in zip(_latencies(node), below, strict=True)
    )
    return forward, backward


def own_params(node: Node) -> int:
    """Elements of the distinct parameter tensors that the module itself owns."""
    return sum({parameter.key: parameter.numel for parameter in node.parameters}.values())


def _params(node: Node) -> tuple[int, int | None]:
    return node.params, node.active_params


def _own_params(node: Node) -> tuple[int, int | None]:
    return own_params(node), node.own_active_params


def _row(
    node: Node,
    depth: int,
    parent: Node | None,
    root: Node,
    work: Phases,
    params: tuple[int, int | None],
    activation_bytes: int,
    times_taken: Times,
) -> TableRow:
    latency, backward_latency = times_taken
    return TableRow(
        path=node.path,
        name=node.name,
        kind=node.kind,
        depth=depth,
        times=times(node),
        calls=node.calls,
        params=params[0],
        active_params=params[1],
        macs=work.macs,
        flops=work.flops,
        flops_share=work.flops / root.flops if root.flops else 0.0,
        backward_flops=work.backward.flops + work.recompute.flops,
        activation_bytes=activation_bytes,
        latency=latency,
        latency_share=None if latency is None or not root.latency else latency / root.latency,
        backward_latency=backward_latency,
        output_shapes=node.output_shapes,
        mark=mark(node),
        hidden=node.hidden if isinstance(node, Group) else 0,
        unknown=sum(row.calls for row in node.ops if row.status == "unknown"),
        first=parent is None or times(parent) != times(node),
    )
