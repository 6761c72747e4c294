"""Measured times of collectives into the communication rows of a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ..comm import CommRow
from ..node import build_up
from ..tree import Node


def with_comm_times(root: Node, times: Mapping[tuple[str, str], tuple[float, float]]) -> Node:
    """The same tree with the seconds of its collectives, all and exposed, by collective and phase.

    A trace tells which collective ran, not for which module: its seconds are shared out by the bytes on the wire.
    """
    if not times:
        return root
    wire: Counter[tuple[str, str]] = Counter()
    for node in root.walk():
        for row in node.comm:
            wire[row.op, row.phase] += row.wire_bytes

    def timed(row: CommRow) -> CommRow:
        key = row.op, row.phase
        if key not in times or not wire[key]:
            return row
        share = row.wire_bytes / wire[key]
        return replace(row, seconds=times[key][0] * share, exposed=times[key][1] * share)

    def make(node: Node, children: tuple[Node, ...]) -> Node:
        return replace(node, children=children, comm=tuple(map(timed, node.comm)))

    return build_up(root, lambda node: node.children, make)
