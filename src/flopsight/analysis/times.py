"""Measured seconds into a profile tree: a pass over the nodes, which prices nothing again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..results.node import Node

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
    done: dict[int, Node] = {}
    for node in reversed(list(root.walk())):  # children before their parents
        children = tuple([done[id(child)] for child in node.children])
        done[id(node)] = replace(
            node,
            children=children,
            latency=_seconds(node.path, forward, (child.latency for child in children)),
            backward_latency=_seconds(node.path, backward, (child.backward_latency for child in children)),
            host_latency=host.get(node.path),
            stream_latency=streams.get(node.path),
        )
    return done[id(root)]


def _seconds(path: str, measured: Seconds, children: Iterable[float | None]) -> float | None:
    """A row's own measurement, else the sum over those children that have one."""
    if path in measured:
        return measured[path]
    known = [seconds for seconds in children if seconds is not None]
    return sum(known) if known else None
