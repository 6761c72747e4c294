"""One run as spans: modules, the ops in them, and the kernels that those launched."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from time import time_ns

from ..errors import StateError
from ..records import OUTSIDE, Span
from .inputs import Run
from .kernels import NODE, TraceEvent
from .kineto import NoDeviceTrace, device_trace
from .timing import Timer


def timeline_of(run: Run) -> tuple[Span, ...]:
    """Trace one run; times count from its first event."""
    timer = Timer(run.plain_model, time_ns)
    try:
        with timer.running(everywhere=True), device_trace(run.device, ops=True, shapes=True) as trace:
            run.step()
    except NoDeviceTrace as problem:
        raise StateError(f"No timeline can be taken: {problem}.") from None
    spans = [*_modules(timer), *_work(trace.events, timer)]
    first = min((span.begin for span in spans), default=0)
    shifted = (
        Span(span.name, span.kind, span.begin - first, span.end - first, span.lane, span.path, span.shapes)
        for span in spans
    )
    return tuple(sorted(shifted, key=lambda span: (span.begin, -span.end)))


def _modules(timer: Timer) -> Iterator[Span]:
    for thread, begin, end, path in timer.calls():
        yield Span(path.rpartition(".")[2] or type(timer.sites.roots[""]).__name__, "module", begin, end, thread, path)


def _work(events: list[TraceEvent], timer: Timer) -> Iterator[Span]:
    marks = timer.marks()
    launched = {event.correlation: event for event in events if not event.device and event.correlation}

    def at(thread: int, moment: int) -> str:
        rows = marks.get(thread, [])
        i = bisect_right(rows, moment, key=lambda mark: mark[0]) - 1
        return rows[i][1] if i >= 0 else OUTSIDE

    for event in events:
        if event.device:
            host = launched.get(event.correlation) or launched.get(event.linked)
            path = at(host.lane, host.begin) if host is not None else OUTSIDE
            yield Span(event.name, "kernel", event.begin, event.end, event.lane, path)
        elif event.name.startswith(("aten::", NODE)) or event.shapes:
            yield Span(event.name, "op", event.begin, event.end, event.lane, at(event.lane, event.begin), event.shapes)
