"""Tree -> tree: what a view leaves out of sight. No pass moves a total; what it hides becomes part of what it shows."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from itertools import count

from ..records import PHASES
from ..tree import Node, OpRow, Phases

Pass = Callable[[Node], Node]


@dataclass(frozen=True)
class Group(Node):
    """A row that stands for more than one module; its figures are their sums."""

    times: int = 1
    """Like modules drawn as one."""
    hidden: int = 0
    """Submodules that are not drawn."""


def to_depth(limit: int | None) -> Pass:
    """Cut below `limit`; what is cut becomes its parent's own. None cuts nothing."""

    def cut(node: Node, depth: int = 0) -> Node:
        if depth == limit:
            return closed(node)
        return replace(node, children=tuple(cut(child, depth + 1) for child in node.children))

    return cut


def without_idle(root: Node) -> Node:
    """Leave out modules below the root that have no parameters, did no work and saved nothing."""

    def kept(node: Node) -> Node:
        return replace(node, children=tuple(kept(child) for child in node.children if not _is_idle(child)))

    return kept(root)


def to_rows(limit: int | None) -> Pass:
    """Open the heaviest modules first until `limit` rows are drawn; None opens all.

    A module that stays shut holds its submodules' figures. Where not even the children of the next module fit, the
    heaviest of them are drawn and the others share a row.
    """

    def pick(root: Node) -> Node:
        if limit is None or _size(root) <= limit:
            return root
        drawn = _opened(root, max(limit, 2))

        def draw(node: Node) -> Node:
            if id(node) not in drawn:
                return closed(node)
            shown = drawn[id(node)]
            rest = [child for child in node.children if id(child) not in shown]
            children = tuple(draw(child) for child in node.children if id(child) in shown)
            return replace(node, children=(*children, _rest(node, rest)) if rest else children)

        return draw(root)

    return pick


def closed(node: Node) -> Node:
    """The same module without its submodules, whose figures it now calls its own."""
    if not node.children:
        return node
    return grouped(
        node,
        own=node.total,
        children=(),
        parameters=node.distinct_parameters,
        calls=node.calls or int(node.called),
        own_activation_bytes=node.activation_bytes,
        own_peak_bytes=node.peak_bytes,
        ops=merged_ops(row for each in node.walk() for row in each.ops),
        hidden=_size(node) - 1,
    )


def grouped(node: Node, **changes: object) -> Group:
    """A node as a group, some fields changed."""
    kept = {field.name: getattr(node, field.name) for field in fields(node)}
    return Group(**(kept | changes))


def merged_ops(rows: Iterable[OpRow]) -> tuple[OpRow, ...]:
    """Op rows of several modules as those of one."""
    found: dict[tuple[str, str, str, str], OpRow] = {}
    for row in rows:
        key = (row.op, row.phase, row.status, row.dtype)
        seen = found.get(key)
        if seen is None:
            found[key] = row
        else:
            shapes = tuple(dict.fromkeys(seen.shapes + row.shapes))
            found[key] = replace(seen, calls=seen.calls + row.calls, cost=seen.cost + row.cost, shapes=shapes)
    return tuple(found.values())


def together(values: Iterable[float | None]) -> float | None:
    """The sum of the known values; None where none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _size(node: Node) -> int:
    return sum(1 for _ in node.walk())


def _is_idle(node: Node) -> bool:
    worked = any(getattr(node.total, phase).flops or getattr(node.total, phase).bytes for phase in PHASES)
    return not (worked or node.params or node.activation_bytes or node.ignored)


def _weight(node: Node) -> tuple[int, int]:
    return -node.total.total.flops, -node.params


def _opened(root: Node, limit: int) -> dict[int, set[int]]:
    """The modules to open, each with those of its children that are drawn."""
    drawn: dict[int, set[int]] = {}
    order = count()  # breaks ties in favour of what comes first
    queue = [(_weight(root), next(order), root)]
    room = limit - 1
    while queue and room > 1:
        node = heapq.heappop(queue)[2]
        children = list(node.children)
        if len(children) > room:
            children = sorted(children, key=_weight)[: room - 1]
            room = 1
        if children:
            drawn[id(node)] = {id(child) for child in children}
            room -= len(children) if len(children) == len(node.children) else 0
            for child in children:
                heapq.heappush(queue, (_weight(child), next(order), child))
    return drawn


def _rest(parent: Node, nodes: list[Node]) -> Node:
    """One row for siblings that are not drawn."""
    shut = [closed(node) for node in nodes]
    name = f"({len(nodes)} more)"
    return Group(
        path=f"{parent.path}.{name}".lstrip("."),
        name=name,
        kind="",
        own=sum((node.own for node in shut), start=Phases()),
        parameters=tuple({p.key: p for node in shut for p in node.parameters}.values()),
        calls=sum(node.calls for node in shut),
        latency=together(node.latency for node in shut),
        backward_latency=together(node.backward_latency for node in shut),
        own_activation_bytes=sum(node.own_activation_bytes for node in shut),
        own_peak_bytes=sum(node.own_peak_bytes for node in shut),
        ops=merged_ops(row for node in shut for row in node.ops),
        times=len(nodes),
        hidden=sum(_size(node) for node in nodes),
    )
