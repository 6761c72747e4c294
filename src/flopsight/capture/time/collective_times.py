"""Time of the collectives in a device trace, and how much of it no computation covers; works on plain events, without torch."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ...results.comm import collective_named
from ...results.records import BACKWARD
from .kernels import Hosts, Marks, Span, TraceEvent, joined

LIBRARIES = ("nccl", "rccl")
ANNOUNCED = "nccl:"
"""How torch marks, on the thread that launches them, the kernels of one collective."""

CollectiveTimes = Mapping[tuple[str, str], tuple[float, float]]
"""By collective and phase: seconds, and those in which the device computed nothing."""


def collective_times(events: Iterable[TraceEvent], marks: Marks) -> dict[tuple[str, str], tuple[float, float]]:
    """Seconds of every collective by phase, all of them and the exposed ones.

    A collective is exposed while no other kernel runs. If two collectives run side by side, the time in which
    neither is covered counts for both.
    """
    events = list(events)
    hosts = Hosts(events, marks)
    announced = _Announced(events)
    exchanging: list[tuple[TraceEvent, TraceEvent | None, str]] = []
    computing: list[Span] = []
    for event in events:
        if not event.device:
            continue
        host = hosts.launcher(event)
        op = announced.collective(host) or collective_of(event.name)
        if op is not None:
            exchanging.append((event, host, op))
        elif not _is_of_library(event.name):
            computing.append((event.begin, event.end))
    covering = joined(computing)
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for event, host, op in exchanging:
        phase = hosts.place(host)[1] if host is not None else BACKWARD
        times = found[op, phase]
        times[0] += (event.end - event.begin) / 1e9
        times[1] += (event.end - event.begin - overlap((event.begin, event.end), covering)) / 1e9
    return {key: (times[0], times[1]) for key, times in found.items()}


class _Announced:
    """The marks that torch sets around the launch of a collective.

    A kernel's own name does not always tell: an all-to-all runs as kernels that send and receive, RCCL has one kernel
    for everything, and one rank alone copies memory.
    """

    def __init__(self, events: Iterable[TraceEvent]) -> None:
        self._by_thread: defaultdict[int, list[TraceEvent]] = defaultdict(list)
        for event in events:
            if not event.device and event.name.startswith(ANNOUNCED):
                self._by_thread[event.lane].append(event)
        for marks in self._by_thread.values():
            marks.sort(key=lambda mark: mark.begin)

    def collective(self, launch: TraceEvent | None) -> str | None:
        """The collective that a launch belongs to."""
        marks = self._by_thread.get(launch.lane, []) if launch is not None else []
        if launch is None or not marks:
            return None
        i = bisect_right(marks, launch.begin, key=lambda mark: mark.begin) - 1
        return collective_of(marks[i].name) if i >= 0 and launch.begin <= marks[i].end else None


def collective_of(name: str) -> str | None:
    """The collective that a kernel or a mark of torch's is named after; None for a kernel that computes."""
    return collective_named(name) if _is_of_library(name) else None


def _is_of_library(kernel: str) -> bool:
    name = kernel.lower()
    return any(library in name for library in LIBRARIES)


def overlap(span: Span, others: Iterable[Span]) -> int:
    """How much of a span lies within others, which do not touch each other."""
    begin, end = span
    return sum(max(0, min(end, stop) - max(begin, start)) for start, stop in others)
