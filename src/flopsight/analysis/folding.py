"""The pass that draws a stack of identical blocks as one row, `0-11`, whose figures are the sums of the stack."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ..tree import Node, Phases
from .passes import Group, grouped, merged_ops, to_depth, to_rows, together

_NUMBERED = re.compile(r"(.*?)(\d+)")


def fold(root: Node) -> Node:
    """Draw consecutive, numbered, identical siblings as one.

    Identical are subtrees with the same names, kinds, parameters, shapes, calls and costs; their times may differ.
    Blocks whose names only end in a number are folded where they have submodules, so `fc1` and `fc2` stay apart.
    """
    likeness = _Likeness()

    def folded(node: Node) -> Node:
        children: list[Node] = []
        for run in _runs(node.children, likeness):
            one = _merged(run, _span(run), node.path) if len(run) > 1 else run[0]
            children.append(folded(one))
        return replace(node, children=tuple(children))

    return folded(root)


def shortened(root: Node, depth: int | None, max_rows: int | None, *, full: bool = False) -> Node:
    """A tree as a view draws it: down to `depth`, stacks folded, at most `max_rows` rows; `full` leaves out the last two."""
    root = to_depth(depth)(root)
    return root if full else to_rows(max_rows)(fold(root))


class _Likeness:
    """Gives equal subtrees equal numbers, each subtree looked at once."""

    def __init__(self) -> None:
        self.numbers: dict[object, int] = {}
        self.seen: dict[int, tuple[Node, int]] = {}  # holds the node, so that its id stays its own

    def __call__(self, node: Node, name: str) -> int:
        if id(node) not in self.seen:
            parts = (
                node.kind,
                node.own,
                tuple((p.numel, p.itemsize, p.trainable) for p in node.parameters),
                (node.calls, node.input_shapes, node.output_shapes, node.extra_repr, node.ignored),
                tuple(self(child, child.name) for child in node.children),
            )
            self.seen[id(node)] = node, self.numbers.setdefault(parts, len(self.numbers))
        return self.numbers.setdefault((name, self.seen[id(node)][1]), len(self.numbers))


def _runs(nodes: Sequence[Node], likeness: _Likeness) -> list[list[Node]]:
    """Siblings in order, those that fold together in one list."""

    def key(place: int, node: Node) -> object:
        match = _NUMBERED.fullmatch(node.name)
        if match is None or (match[1] and not node.children):
            return place, node.name
        # in a run, the number in the name and the place among the siblings grow together
        return match[1], int(match[2]) - place, likeness(node, match[1])

    keyed = [(key(place, node), node) for place, node in enumerate(nodes)]
    return [[node for _, node in run] for _, run in groupby(keyed, key=lambda pair: pair[0])]


def _span(run: Sequence[Node]) -> str:
    last = _NUMBERED.fullmatch(run[-1].name)
    assert last is not None
    return f"{run[0].name}-{last[2]}"


def _merged(nodes: Sequence[Node], name: str, parent: str) -> Group:
    """Identical modules as one."""
    first = nodes[0]
    path = f"{parent}.{name}" if parent else name
    return grouped(
        first,
        path=path,
        name=name,
        own=sum((node.own for node in nodes), start=Phases()),
        children=tuple(
            _merged(alike, alike[0].name, path) for alike in zip(*(node.children for node in nodes), strict=True)
        ),
        parameters=tuple({p.key: p for node in nodes for p in node.parameters}.values()),
        calls=sum(node.calls for node in nodes),
        input_bytes=sum(node.input_bytes for node in nodes),
        output_bytes=sum(node.output_bytes for node in nodes),
        latency=together(node.latency for node in nodes),
        backward_latency=together(node.backward_latency for node in nodes),
        own_activation_bytes=sum(node.own_activation_bytes for node in nodes),
        own_peak_bytes=sum(node.own_peak_bytes for node in nodes),
        allocated_bytes=_whole(together(node.allocated_bytes for node in nodes)),
        ops=merged_ops(row for node in nodes for row in node.ops),
        times=sum(times(node) for node in nodes),
    )


def times(node: Node) -> int:
    """How many modules a node stands for."""
    return node.times if isinstance(node, Group) else 1


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
