"""Gives every kernel of a trace to the module whose op launched it; works on plain events, without torch."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...results.records import BACKWARD, FORWARD, OPTIMIZER, OUTSIDE, RECOMPUTE, above

NODE = "autograd::engine::evaluate_function: "
"""How the profiler names the run of an autograd node."""
LAUNCHES = ("cuda", "hip", "cu")


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
    """Notes taken beside the trace: which module ran when, which module made which autograd node."""

    rows: Mapping[int, Sequence[tuple[int, str]]]
    """By thread: from each moment on, the path that ran."""
    makers: Sequence[tuple[int, str]] = ()
    """From each autograd number on, the path that made the node."""
    optimizer: Sequence[tuple[int, int]] = ()
    """Spans of optimizer steps."""
    calls: Sequence[tuple[int, int, int, str]] = ()
    """Every module call: thread, begin, end, path."""


@dataclass
class DeviceTime:
    """Seconds of device work by path and phase; kernels without a known launch are kept by name."""

    by_row: defaultdict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    unplaced: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    busy: float = 0.0
    """All device work summed; kernels that ran side by side count once each."""
    covered: float = 0.0
    """Seconds in which any kernel of the model's forward ran; what ran outside every module is not in it."""
    streams: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By path, from the first forward kernel of a call to the end of its last, submodules included."""

    def rows(self, phase: str) -> dict[str, float]:
        """Seconds by path in a phase, each row's own."""
        return {path: seconds for (path, name), seconds in self.by_row.items() if name == phase}


class Hosts:
    """The host's events of a trace: finds the one that launched a kernel, and its row and phase."""

    def __init__(self, events: Iterable[TraceEvent], marks: Marks) -> None:
        self._marks = marks
        self._launches: dict[int, TraceEvent] = {}
        self._ops: dict[int, TraceEvent] = {}
        self._nodes: dict[int, list[TraceEvent]] = {}
        for event in events:
            if event.device:
                continue
            if event.name.startswith(NODE):
                self._nodes.setdefault(event.lane, []).append(event)
            elif event.correlation:
                (self._launches if event.name.startswith(LAUNCHES) else self._ops)[event.correlation] = event
        for found in self._nodes.values():
            found.sort(key=lambda event: event.begin)

    def launcher(self, kernel: TraceEvent) -> TraceEvent | None:
        """The call that launched a kernel, else the op; None if neither was traced."""
        of_kernel = kernel.correlation
        return self._launches.get(of_kernel) or self._ops.get(kernel.linked) or self._ops.get(of_kernel)

    def place(self, host: TraceEvent) -> tuple[str, str]:
        """The path and the phase in which a host event happened."""
        marks, moment = self._marks, host.begin
        path = _at(marks.rows.get(host.lane, ()), moment)
        nodes = self._nodes.get(host.lane, [])
        i = bisect_right(nodes, moment, key=lambda node: node.begin) - 1
        if i < 0 or nodes[i].end < moment:
            stepping = any(begin <= moment <= end for begin, end in marks.optimizer)
            return path, OPTIMIZER if stepping and path == OUTSIDE else FORWARD
        if path != OUTSIDE:
            return path, RECOMPUTE
        # What gathers a parameter's gradient has no number: it runs right after the node that made the gradient.
        while i > 0 and nodes[i].sequence < 0:
            i -= 1
        return (_at(marks.makers, nodes[i].sequence) if nodes[i].sequence >= 0 else OUTSIDE), BACKWARD


Span = tuple[int, int]
Launch = tuple[int, int, int, int]
"""The thread and the moment of a launch, begin and end of its kernel."""


def place_kernels(events: Iterable[TraceEvent], marks: Marks) -> DeviceTime:
    """Put every device event into the row and phase of the host work that launched it."""
    events = list(events)
    hosts = Hosts(events, marks)
    result = DeviceTime()
    forward: list[Launch] = []
    for event in events:
        if not event.device:
            continue
        seconds = (event.end - event.begin) / 1e9
        result.busy += seconds
        host = hosts.launcher(event)
        if host is None:
            result.unplaced[event.name] += seconds
            continue
        path, phase = hosts.place(host)
        result.by_row[path, phase] += seconds
        if phase == FORWARD and path != OUTSIDE:
            forward.append((host.lane, host.begin, event.begin, event.end))
    result.covered = sum(end - begin for begin, end in joined(launch[2:] for launch in forward)) / 1e9
    for path, seconds in _stream_times(forward, marks.calls):
        result.streams[path] += seconds
    return result


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same time in spans that do not touch, in order."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def _stream_times(
    launches: Iterable[Launch], calls: Iterable[tuple[int, int, int, str]]
) -> Iterator[tuple[str, float]]:
    """For every module call, the time from its first kernel's begin to its last one's end."""
    lanes: dict[int, list[Launch]] = {}
    for launch in sorted(launches, key=lambda launch: launch[1]):
        lanes.setdefault(launch[0], []).append(launch)
    for thread, begin, end, path in calls:
        lane = lanes.get(thread, [])
        first, last = (bisect_right(lane, moment, key=lambda launch: launch[1]) for moment in (begin, end))
        if first < last:
            yield path, (max(one[3] for one in lane[first:last]) - min(one[2] for one in lane[first:last])) / 1e9


def _at(marks: Sequence[tuple[int, str]], moment: int) -> str:
    """The path that the last mark before a moment names."""
    i = bisect_right(marks, moment, key=lambda mark: mark[0]) - 1
    return marks[i][1] if i >= 0 else OUTSIDE


def with_children(own: Mapping[str, float], paths: Iterable[str]) -> dict[str, float]:
    """Own seconds by path, made inclusive: every path's own and that of all below it."""
    totals = dict.fromkeys(paths, 0.0)
    for path, seconds in own.items():
        for row in (path, *above(path)):
            totals[row] = totals.get(row, 0.0) + seconds
    return totals
