"""Tree -> tree: what a view leaves out of sight. No pass moves a total; what it hides becomes part of what it shows."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from ..results.node import Node, build_up
from ..results.records import PHASES
from .merging import Group, closed, merged

Pass = Callable[[Node], Node]


def to_depth(limit: int | None) -> Pass:
    """Cut below `limit`; what is cut becomes its parent's own. None cuts nothing."""

    def cut(root: Node) -> Node:
        if limit is None:
            return root
        return build_up((root, 0), below, make)

    def below(item: tuple[Node, int]) -> list[tuple[Node, int]]:
        node, depth = item
        return [] if depth == limit else [(child, depth + 1) for child in node.children]

    def make(item: tuple[Node, int], children: tuple[Node, ...]) -> Node:
        node, depth = item
        return closed(node) if depth == limit else replace(node, children=children)

    return cut


def without_idle(root: Node) -> Node:
    """Leave out modules below the root that have no parameters, did no work and saved nothing."""
    return build_up(
        root,
        lambda node: (child for child in node.children if not _is_idle(child)),
        lambda node, children: replace(node, children=children),
    )


def to_rows(limit: int | None) -> Pass:
    """Open the heaviest modules first until `limit` rows are drawn; None opens all.

    A module that stays shut holds its submodules' figures. If not even the children of the next module fit, the
    heaviest of them are drawn and the others share a row.
    """

    def pick(root: Node) -> Node:
        if limit is None or _size(root) <= limit:
            return root
        drawn = _opened(root, max(limit, 2))

        def shown(node: Node) -> list[Node]:
            return [child for child in node.children if id(child) in drawn.get(id(node), ())]

        def draw(node: Node, children: tuple[Node, ...]) -> Node:
            if id(node) not in drawn:
                return closed(node)
            rest = [child for child in node.children if id(child) not in drawn[id(node)]]
            return replace(node, children=(*children, _rest(node, rest)) if rest else children)

        return build_up(root, shown, draw)

    return pick


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


def _rest(parent: Node, nodes: Sequence[Node]) -> Group:
    """One row for siblings that are not drawn."""
    name = f"({len(nodes)} more)"
    return merged(
        [closed(node) for node in nodes],
        path=f"{parent.path}.{name}".lstrip("."),
        name=name,
        kind="",
        times=len(nodes),
        hidden=sum(_size(node) for node in nodes),
    )
