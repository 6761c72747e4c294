"""Measured times of collectives into the communication rows of a tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from ..results.comm import RECV, SEND, CommRow
from ..results.node import Node, build_up

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

    def make(node: Node, children: tuple[Node, ...]) -> Node:
        return replace(node, children=children, comm=tuple(map(timed, node.comm)))

    return build_up(root, lambda node: node.children, make)


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
    """By what rows share their time, and the sum of it: bytes on the wire, or what is handed in where none are sent."""
    totals = {name: sum(getattr(row, name) for row in rows) for name in ("wire_bytes", "bytes", "calls")}
    return next((name, total) for name, total in totals.items() if total)
