"""Time by op: every kernel, or on a CPU every traced op, with the names of the ops that it ran inside; needs no torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .kernels import NODE, Hosts, Marks, TraceEvent

OpTimes = Mapping[tuple[str, str, tuple[str, ...]], float]
"""Seconds by path, phase and the names of the ops around the work, the outermost first: `aten.linear`, `aten.addmm`."""


def op_times(events: Sequence[TraceEvent], marks: Marks, *, on_host: bool) -> OpTimes:
    """Seconds of kernels by the ops that launched them, or of the host's ops, each without the ops inside it."""
    hosts, nested = Hosts(events, marks), _Nested(events)
    found: defaultdict[tuple[str, str, tuple[str, ...]], float] = defaultdict(float)
    for host, op, nanoseconds in nested.own_times() if on_host else _kernels(events, hosts):
        path, phase = hosts.place(host)
        found[path, phase, nested.names(op)] += nanoseconds / 1e9
    return dict(found)


def _kernels(events: Iterable[TraceEvent], hosts: Hosts) -> Iterator[tuple[TraceEvent, int, int]]:
    """What launched each kernel, the op that it is linked to, and its nanoseconds."""
    for event in events:
        host = hosts.launcher(event) if event.device else None
        if host is not None:
            yield host, event.linked, event.end - event.begin


class _Nested:
    """The host's ops of a trace, each with the op that it ran inside."""

    def __init__(self, events: Iterable[TraceEvent]) -> None:
        self._ops: dict[int, TraceEvent] = {}
        self._around: dict[int, TraceEvent] = {}
        self._inside: defaultdict[int, int] = defaultdict(int)
        lanes: defaultdict[int, list[TraceEvent]] = defaultdict(list)
        for event in events:
            if not event.device and event.correlation and "::" in event.name and not event.name.startswith(NODE):
                lanes[event.lane].append(event)
                self._ops[event.correlation] = event
        for ops in lanes.values():
            self._nest(ops)

    def _nest(self, ops: list[TraceEvent]) -> None:
        open_ops: list[TraceEvent] = []
        for event in sorted(ops, key=lambda op: (op.begin, -op.end)):
            while open_ops and open_ops[-1].end < event.end:
                open_ops.pop()
            if open_ops:
                self._around[event.correlation] = open_ops[-1]
                self._inside[open_ops[-1].correlation] += event.end - event.begin
            open_ops.append(event)

    def names(self, correlation: int) -> tuple[str, ...]:
        """The op of that number and those around it, the outermost first, as records write them."""
        op = self._ops.get(correlation)
        found: list[str] = []
        while op is not None:
            found.append(op.name.replace("::", ".", 1))
            op = self._around.get(op.correlation)
        return tuple(reversed(found))

    def own_times(self) -> Iterator[tuple[TraceEvent, int, int]]:
        """Every op, its number and its nanoseconds, less those of the ops inside it."""
        for event in self._ops.values():
            yield event, event.correlation, max(0, event.end - event.begin - self._inside[event.correlation])
