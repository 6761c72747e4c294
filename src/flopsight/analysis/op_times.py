"""Traced seconds into the op rows of a profile tree: a pass over the nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..results.costs import OpRow
from ..results.node import Node
from ..results.records import OPTIMIZER

OpTimes = Mapping[tuple[str, str, tuple[str, ...]], float]
"""Seconds by path, phase and the names of the ops around the work, the outermost first."""
Traced = Sequence[tuple[tuple[str, ...], float]]


def with_op_times(root: Node, times: OpTimes) -> Node:
    """The same tree with the time of every op row that was traced."""
    if not times:
        return root
    by_place: defaultdict[tuple[str, str], list[tuple[tuple[str, ...], float]]] = defaultdict(list)
    for (path, phase, names), seconds in times.items():
        by_place[path, phase].append((names, seconds))
    updates = _update_times(root, times)
    done: dict[int, Node] = {}
    for node in reversed(list(root.walk())):  # children before their parents
        children = tuple([done[id(child)] for child in node.children])
        done[id(node)] = replace(node, ops=_timed(node, by_place, updates), children=children)
    return done[id(root)]


def _update_times(root: Node, times: OpTimes) -> dict[str, float]:
    """Seconds per byte of the optimizer's ops: a step runs over lists of parameters, and each has its part of the time."""
    moved: Counter[str] = Counter()
    for node in root.walk():
        for row in node.ops:
            if row.phase == OPTIMIZER:
                moved[row.op] += row.cost.bytes
    spent: defaultdict[str, float] = defaultdict(float)
    for (_, phase, names), seconds in times.items():
        op = next((name for name in names if moved[name]), None) if phase == OPTIMIZER else None
        if op is not None:
            spent[op] += seconds
    return {op: seconds / moved[op] for op, seconds in spent.items()}


def _timed(node: Node, by_place: Mapping[tuple[str, str], Traced], updates: Mapping[str, float]) -> tuple[OpRow, ...]:
    """Every traced time goes to the outermost op around it that has a row; several rows of one op share it by their work."""
    work: Counter[tuple[str, str]] = Counter()
    for row in node.ops:
        work[row.op, row.phase] += _work(row)
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for phase in {row.phase for row in node.ops} - {OPTIMIZER}:
        nameless = 0.0
        for names, taken in by_place.get((node.path, phase), ()):
            op = next((name for name in names if (name, phase) in work), None)
            if op is not None:
                seconds[op, phase] += taken
            else:
                nameless += taken
        # a norm may be counted under one name and run under another's: the only op left without a time is the one that ran
        waiting = {row.op for row in node.ops if row.phase == phase and _works(row) and (row.op, phase) not in seconds}
        if nameless and len(waiting) == 1:
            seconds[waiting.pop(), phase] = nameless

    def of(row: OpRow) -> float | None:
        if row.phase == OPTIMIZER:
            return updates[row.op] * row.cost.bytes if row.op in updates else None
        whole = seconds.get((row.op, row.phase))
        return None if whole is None else whole * _work(row) / work[row.op, row.phase]

    return tuple(replace(row, seconds=of(row)) for row in node.ops)


def _work(row: OpRow) -> int:
    return max(row.cost.flops, row.cost.bytes, row.calls)


def _works(row: OpRow) -> bool:
    return bool(row.cost.bytes or row.cost.flops)
