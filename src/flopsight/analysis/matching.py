"""Which module of one profile is which of another: by name, and in numbered stacks by likeness, so that an insertion is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from ..results.node import Node
from ..results.profile import Profile


def matched(before: Profile, after: Profile) -> list[tuple[Node, Node]]:
    """Pairs of modules that are the same one, in the order of `after`.

    Where no name but the root's is in both, one of the models is wrapped: then names without the wrappers' count.
    """
    if before.nodes.keys() & after.nodes.keys() - {""}:
        return list(_down(before.root, after.root))
    old, new = before.plain_paths, after.plain_paths
    return [(old[path], node) for path, node in new.items() if path in old]


def _down(one: Node, other: Node) -> Iterator[tuple[Node, Node]]:
    waiting = [(one, other)]
    while waiting:
        pair = waiting.pop()
        yield pair
        waiting.extend(reversed(_children(*pair)))


def _children(one: Node, other: Node) -> list[tuple[Node, Node]]:
    """The children of two modules that belong together."""
    old = {child.name: child for child in one.children}
    stacks = [[child for child in node.children if child.name.isdecimal()] for node in (one, other)]
    if len(stacks[0]) != len(stacks[1]):
        moved = {id(new): was for was, new in _aligned(*stacks)}
    else:
        moved = {id(new): old[new.name] for new in stacks[1] if new.name in old}
    named = ((moved.get(id(new)) if new.name.isdecimal() else old.get(new.name), new) for new in other.children)
    return [(was, new) for was, new in named if was is not None]


def _aligned(old: Sequence[Node], new: Sequence[Node]) -> Iterator[tuple[Node, Node]]:
    """Two stacks of blocks, one of which has more: like blocks in order are the same; in between, those of one class."""
    matcher = SequenceMatcher(
        None, [_likeness(node) for node in old], [_likeness(node) for node in new], autojunk=False
    )
    for what, begin, end, start, stop in matcher.get_opcodes():
        if what in ("equal", "replace"):
            pairs = zip(old[begin:end], new[start:stop], strict=False)
            yield from (pair for pair in pairs if what == "equal" or pair[0].kind == pair[1].kind)


def _likeness(node: Node) -> tuple[str, int, int]:
    return node.kind, node.params, sum(1 for _ in node.walk())
