"""The data of the model graph: the rows that data goes between, with its bytes; blocks of a stack are one row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from ...results.data_flow import INPUT, OUTPUT, DataFlow, Place
from ...results.node import Node
from ...results.records import FORWARD, OUTSIDE

ENDS = (INPUT, OUTPUT, OUTSIDE)
MOST_PLACES = 4000
"""Places that the page gets; of a larger model the upper levels."""

MOST_OPS = 2
"""Ops that name what a module does itself."""

Row = Callable[[str], str]


def graph(flow: DataFlow | None, nodes: Sequence[Node], rows: dict[str, str]) -> dict[str, Any] | None:
    """Places, flows between them, bytes that go from block to block of a stack, and the modules that no data is seen to pass."""
    if flow is None:
        return None
    known = {node.path: node for node in nodes}
    deepest = max(path.count(".") for path in known)
    while True:
        above = _cut(known, deepest)
        closed = {above(path) for path in flow.modules if above(path) != path}
        links, carried = _summed(flow, above, closed, rows)
        places = list(dict.fromkeys(place for ends in links for place in ends))
        if len(places) <= MOST_PLACES or not deepest:
            break
        deepest -= 1
    number = {place: i for i, place in enumerate(places)}
    work = _work(flow, known, rows)
    cut = {rows.get(path, path) for path in closed}
    return {
        "places": [[*place, "" if place[0] in cut else work.get(place, "")] for place in places],
        "links": [[number[source], number[target], size] for (source, target), size in links.items()],
        "carried": dict(carried),
        "aside": _aside(flow, nodes, rows),
    }


def _cut(known: dict[str, Node], deepest: int) -> Row:
    """The module, or the one above it, that is shown and not below a depth."""

    def row(path: str) -> str:
        while path and path not in ENDS and (path.count(".") > deepest or path not in known):
            path = path.rpartition(".")[0]
        return path

    return row


def _summed(flow: DataFlow, above: Row, closed: set[str], rows: dict[str, str]) -> tuple[Counter[Any], Counter[str]]:
    """Bytes by the rows at both ends, of which those that are `closed` have one turn for all; what goes from block to block of one stack is apart, by the stack's row."""
    links: Counter[Any] = Counter()
    carried: Counter[str] = Counter()
    for (source, made), (target, taken), size in flow:
        shown, seen = above(source), above(target)
        stack = _shared_stack(shown, seen, rows)
        if stack:
            carried[stack] += size
            continue
        ends = [(rows.get(row, row), 0 if row in closed else turn) for row, turn in ((shown, made), (seen, taken))]
        if ends[0] != ends[1]:
            links[tuple(ends)] += size
    return links, carried


def _shared_stack(one: str, other: str, rows: dict[str, str]) -> str:
    """The row of the stack in which two modules are different blocks, or parts of such; empty if there is none."""
    mine, theirs = one.split("."), other.split(".")
    for place in range(1, min(len(mine), len(theirs)) + 1):
        first, second = ".".join(mine[:place]), ".".join(theirs[:place])
        if first != second:
            row = rows.get(first, first)
            return row if row == rows.get(second, second) else ""
    return ""


def _work(flow: DataFlow, known: dict[str, Node], rows: dict[str, str]) -> dict[Place, str]:
    """What modules do themselves between the submodules that they call: the heaviest ops, `add`, say, of a residual block."""
    found: dict[Place, str] = {}
    for path, turn, ops in zip(flow.modules, flow.turns, flow.work, strict=True):
        place = rows.get(path, path), turn
        if place in found or path not in known:
            continue
        cost = {row.op: (row.cost.flops, row.cost.bytes) for row in known[path].ops if row.phase == FORWARD}
        names = sorted(ops.split(), key=lambda op: cost.get(op, (0, 0)), reverse=True)
        short = list(dict.fromkeys(name.rpartition(".")[2].strip("_") for name in names))
        found[place] = ", ".join(short if len(short) <= MOST_OPS else (*short[:MOST_OPS], "..."))
    return found


def _aside(flow: DataFlow, nodes: Sequence[Node], rows: dict[str, str]) -> dict[str, list[str]]:
    """Rows of the lowest modules that are in no flow: those that were never called, and those that hand data on as it is."""
    seen = set(flow.modules)
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for node in nodes:
        if not node.children and node.path not in seen and node.path and not node.name.startswith("<"):
            found["passing" if node.calls else "idle"][rows.get(node.path, node.path)] = None
    return {why: list(names) for why, names in found.items()}
