"""The pass that draws a stack of identical blocks as one row, `0-11`, whose figures are the sums of the stack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from ..results.node import Node, build_up
from .merging import Group, merged
from .passes import to_depth, to_rows

_NUMBERED = re.compile(r"(.*?)(\d{1,18})")
"""A name that ends in a number; of a name with thousands of digits the last ones, since Python refuses longer numbers."""


def fold(root: Node) -> Node:
    """Draw consecutive, numbered, identical siblings as one.

    Identical are subtrees with the same names, kinds, parameters, shapes, calls and costs; their times may differ.
    Blocks whose names only end in a number are folded if they have submodules, so `fc1` and `fc2` stay apart.
    """
    likeness = _Likeness()

    def rows(node: Node) -> list[Node]:
        runs = _runs(node.children, likeness)
        return [_stacked(run, node.path) if len(run) > 1 else run[0] for run in runs]

    return build_up(root, rows, lambda node, children: replace(node, children=children))


def alike(root: Node) -> Iterator[list[Node]]:
    """Every run of siblings that `fold` would draw as one, at every depth of the tree as it is."""
    likeness = _Likeness()
    for node in root.walk():
        yield from (run for run in _runs(node.children, likeness) if len(run) > 1)


def folded_paths(root: Node) -> dict[str, str]:
    """By path, the path of the row that `fold` draws a module in: `h.0-11.mlp` for `h.3.mlp`."""
    spans = {node.path: _span(run) for run in alike(root) for node in run}
    found = {root.path: root.path}
    for node in root.walk():
        above = found[node.path]
        for child in node.children:
            name = spans.get(child.path, child.name)
            found[child.path] = f"{above}.{name}" if above else name
    return found


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
        new = [node]
        for each in new:  # grows while it is read: parents before children
            new += [child for child in each.children if id(child) not in self.seen]
        for each in reversed(new):
            self.seen[id(each)] = each, self._number(each)
        return self._named(name, node)

    def _number(self, node: Node) -> int:
        """The number of a subtree whose children have theirs; its own name does not matter."""
        parts = (
            node.kind,
            node.own,
            tuple((p.numel, p.itemsize, p.trainable) for p in node.parameters),
            (node.calls, node.input_shapes, node.output_shapes, node.extra_repr, node.ignored),
            tuple(self._named(child.name, child) for child in node.children),
        )
        return self.numbers.setdefault(parts, len(self.numbers))

    def _named(self, name: str, node: Node) -> int:
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


def _stacked(run: Sequence[Node], parent: str) -> Node:
    """Identical modules as one, their submodules merged place by place."""

    def below(item: tuple[Sequence[Node], str, str]) -> list[tuple[Sequence[Node], str, str]]:
        nodes, path, _ = item
        alike = zip(*(node.children for node in nodes), strict=True)
        return [(each, f"{path}.{each[0].name}" if path else each[0].name, each[0].name) for each in alike]

    def make(item: tuple[Sequence[Node], str, str], children: tuple[Node, ...]) -> Node:
        nodes, path, name = item
        number = sum(times(node) for node in nodes)
        return merged(nodes, path=path, name=name, kind=nodes[0].kind, children=children, times=number)

    name = _span(run)
    return build_up((run, f"{parent}.{name}" if parent else name, name), below, make)


def times(node: Node) -> int:
    """How many modules a node stands for."""
    return node.times if isinstance(node, Group) else 1
