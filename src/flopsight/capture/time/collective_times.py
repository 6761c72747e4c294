"""Time of the collectives in a device trace, and how much of it no computation covers; works on plain events, without torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ...comm import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BROADCAST, REDUCE, REDUCE_SCATTER, SEND
from ...records import BACKWARD
from .kernels import Hosts, Marks, TraceEvent

KERNELS = (
    ("allreduce", ALL_REDUCE),
    ("allgather", ALL_GATHER),
    ("reducescatter", REDUCE_SCATTER),
    ("alltoall", ALL_TO_ALL),
    ("sendrecv", SEND),
    ("broadcast", BROADCAST),
    ("reduce", REDUCE),
)
"""Collectives by what the kernels of NCCL and RCCL are called; the first that fits counts."""
LIBRARIES = ("nccl", "rccl")

Span = tuple[int, int]
CollectiveTimes = Mapping[tuple[str, str], tuple[float, float]]
"""By collective and phase: seconds, and those in which the device computed nothing."""


def collective_times(events: Iterable[TraceEvent], marks: Marks) -> dict[tuple[str, str], tuple[float, float]]:
    """Seconds of every collective by phase, all of them and the exposed ones.

    A collective is exposed while no other kernel runs. Where two collectives run side by side, the time in which
    neither is covered counts for both.
    """
    events = list(events)
    hosts = Hosts(events, marks)
    exchanging = [(event, op) for event in events if event.device and (op := collective_of(event.name)) is not None]
    computing = joined((event.begin, event.end) for event in events if event.device and not collective_of(event.name))
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for event, op in exchanging:
        host = hosts.launcher(event)
        phase = hosts.place(host)[1] if host is not None else BACKWARD
        times = found[op, phase]
        times[0] += (event.end - event.begin) / 1e9
        times[1] += (event.end - event.begin - overlap((event.begin, event.end), computing)) / 1e9
    return {key: (times[0], times[1]) for key, times in found.items()}


def collective_of(kernel: str) -> str | None:
    """The collective that a kernel is part of; None for a kernel that computes."""
    name = kernel.lower().replace("_", "")
    if not any(library in name for library in LIBRARIES):
        return None
    return next((op for word, op in KERNELS if word in name), None)


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same time in spans that do not touch, in order."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def overlap(span: Span, others: Iterable[Span]) -> int:
    """How much of a span lies within others, which do not touch each other."""
    begin, end = span
    return sum(max(0, min(end, stop) - max(begin, start)) for start, stop in others)
