"""Device time to modules: every kernel goes to the row whose op launched it; needs no torch, only events and marks."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..records import BACKWARD, FORWARD, OPTIMIZER, OUTSIDE, RECOMPUTE

NODE = "autograd::engine::evaluate_function: "
"""How the profiler names the run of an autograd node."""


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """Something that took time on the host or on the device, in nanoseconds."""

    name: str
    begin: int
    end: int
    device: bool
    """Whether it ran on the device: a kernel, a copy, a fill."""
    lane: int
    """The thread on the host, the stream on the device."""
    correlation: int = 0
    """Joins a kernel to the call that launched it."""
    linked: int = 0
    """Joins a kernel to the op that launched it."""
    sequence: int = -1
    shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Marks:
    """What was noted beside the trace: which module ran when, which module made which autograd node."""

    rows: Mapping[int, Sequence[tuple[int, str]]]
    """By thread: from each moment on, the path that ran."""
    makers: Sequence[tuple[int, str]] = ()
    """From each autograd number on, the path that made the node."""
    optimizer: Sequence[tuple[int, int]] = ()
    """Spans of optimizer steps."""


@dataclass
class DeviceTime:
    """Seconds of device work by path and phase; what could not be placed has a name of its own."""

    by_row: defaultdict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    unplaced: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    busy: float = 0.0
    """All device work together."""

    def rows(self, phase: str) -> dict[str, float]:
        """Seconds by path in a phase, each row's own."""
        return {path: seconds for (path, name), seconds in self.by_row.items() if name == phase}


def place_kernels(events: Iterable[TraceEvent], marks: Marks) -> DeviceTime:
    """Put every device event into the row and phase of the host work that launched it."""
    events = list(events)
    launches: dict[int, TraceEvent] = {}
    ops: dict[int, TraceEvent] = {}
    nodes: dict[int, list[TraceEvent]] = {}
    for event in events:
        if event.device:
            continue
        if event.name.startswith(NODE):
            nodes.setdefault(event.lane, []).append(event)
        elif event.correlation:
            (launches if _is_launch(event) else ops)[event.correlation] = event
    for found in nodes.values():
        found.sort(key=lambda event: event.begin)
    result = DeviceTime()
    for event in events:
        if not event.device:
            continue
        seconds = (event.end - event.begin) / 1e9
        result.busy += seconds
        host = launches.get(event.correlation) or ops.get(event.linked) or ops.get(event.correlation)
        if host is None:
            result.unplaced[event.name] += seconds
            continue
        result.by_row[_place(host, marks, nodes.get(host.lane, []))] += seconds
    return result


def _is_launch(event: TraceEvent) -> bool:
    return event.name.startswith(("cuda", "hip", "cu"))


def _place(host: TraceEvent, marks: Marks, nodes: Sequence[TraceEvent]) -> tuple[str, str]:
    path = _at(marks.rows.get(host.lane, ()), host.begin)
    node = _around(nodes, host.begin)
    if node is None:
        stepping = any(begin <= host.begin <= end for begin, end in marks.optimizer)
        return (path, OPTIMIZER if stepping and path == OUTSIDE else FORWARD)
    if path != OUTSIDE:
        return path, RECOMPUTE
    return (_at(marks.makers, node.sequence) if node.sequence >= 0 else OUTSIDE), BACKWARD


def _at(marks: Sequence[tuple[int, str]], moment: int) -> str:
    """The path that the last mark before a moment names."""
    i = bisect_right(marks, moment, key=lambda mark: mark[0]) - 1
    return marks[i][1] if i >= 0 else OUTSIDE


def _around(nodes: Sequence[TraceEvent], moment: int) -> TraceEvent | None:
    """The autograd node that was running at a moment on a thread."""
    i = bisect_right(nodes, moment, key=lambda node: node.begin) - 1
    return nodes[i] if i >= 0 and nodes[i].end >= moment else None


def with_children(own: Mapping[str, float], paths: Iterable[str]) -> dict[str, float]:
    """Own seconds by path, made inclusive: every path's own and that of all below it."""
    totals = dict.fromkeys(paths, 0.0)
    for path, seconds in own.items():
        for above in _upwards(path):
            totals[above] = totals.get(above, 0.0) + seconds
    return totals


def _upwards(path: str) -> Iterator[str]:
    """A path and those of all modules around it, the root last."""
    yield path
    while path:
        path = path.rpartition(".")[0]
        yield path
