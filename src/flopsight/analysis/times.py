"""Measured seconds into the rows of a profile tree: those of modules, of ops and of collectives."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ..results.comm import RECV, SEND, CommRow
from ..results.costs import OpRow, known_sum
from ..results.node import Node, rebuilt
from ..results.records import OPTIMIZER

Seconds = Mapping[str, float]
"""Measured seconds by module path."""
NOT_MEASURED: Seconds = {}


def with_times(
    root: Node,
    forward: Seconds,
    backward: Seconds = NOT_MEASURED,
    *,
    host: Seconds = NOT_MEASURED,
    streams: Seconds = NOT_MEASURED,
) -> Node:
    """The same tree with the times of its modules; a row that was not measured keeps none.

    A container that is never called shows the sum of its children's forward and backward times.
    """

    def make(node: Node, children: tuple[Node, ...]) -> Node:
        return replace(
            node,
            children=children,
            latency=_seconds(node.path, forward, (child.latency for child in children)),
            backward_latency=_seconds(node.path, backward, (child.backward_latency for child in children)),
            host_latency=host.get(node.path),
            stream_latency=streams.get(node.path),
        )

    return rebuilt(root, make)


def _seconds(path: str, measured: Seconds, children: Iterable[float | None]) -> float | None:
    """A row's own measurement, else the sum over those children that have one."""
    return measured[path] if path in measured else known_sum(children)


Key = tuple[str, str]
"""A collective and its phase."""


def with_comm_times(root: Node, times: Mapping[Key, tuple[float, float]]) -> Node:
    """The same tree with the seconds of its collectives, all and exposed, by collective and phase.

    A trace tells which collective ran, not for which module: its seconds are shared out by the bytes on the wire.
    """
    if not times:
        return root
    rows: defaultdict[Key, list[CommRow]] = defaultdict(list)
    for node in root.walk():
        for row in node.comm:
            rows[row.op, row.phase].append(row)
    seconds: defaultdict[Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for key, (whole, exposed) in times.items():
        found = _key_of_rows(key, rows)
        if found is not None:
            seconds[found][0] += whole
            seconds[found][1] += exposed
    measures = {key: _measure(rows[key]) for key in seconds}

    def timed(row: CommRow) -> CommRow:
        key = row.op, row.phase
        if key not in seconds:
            return row
        measure, total = measures[key]
        share = getattr(row, measure) / total
        return replace(row, seconds=seconds[key][0] * share, exposed=seconds[key][1] * share)

    return rebuilt(root, lambda node, children: replace(node, children=children, comm=tuple(map(timed, node.comm))))


def _key_of_rows(key: Key, known: Collection[Key]) -> Key | None:
    """The rows that the time of a collective's kernels belongs to.

    What runs at the very end of a backward is in no autograd node, so a trace may give it another phase; and one kernel
    may send and receive.
    """
    op, phase = key
    other = {SEND: RECV, RECV: SEND}.get(op, op)
    near = [k for name in (op, other) for k in ((name, phase), *known) if k in known and k[0] == name]
    return near[0] if near else None


def _measure(rows: Collection[CommRow]) -> tuple[str, int]:
    """By what rows share their time, and the sum of it: bytes on the wire, or what is handed in if none are sent."""
    totals = {name: sum(getattr(row, name) for row in rows) for name in ("wire_bytes", "bytes", "calls")}
    return next((name, total) for name, total in totals.items() if total)


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
    return rebuilt(root, lambda node, below: replace(node, ops=_timed(node, by_place, updates), children=below))


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
        working = [row.op for row in node.ops if row.phase == phase and (row.cost.bytes or row.cost.flops)]
        waiting = {op for op in working if (op, phase) not in seconds}
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
