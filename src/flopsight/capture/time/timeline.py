"""One traced run as spans: modules, the ops in them, and the kernels that those launched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import time_ns

from ...results.records import OUTSIDE, Span
from ..hooks.optimizer_steps import optimizer_steps
from ..model.model_run import ModelRun
from .kernels import NODE, Hosts, Marks, TraceEvent
from .kineto import device_trace
from .module_marks import Timer


def trace_timeline(run: ModelRun) -> tuple[Span, ...]:
    """Trace one run; times count from its first event. `NoDeviceTrace` if that cannot be done."""
    if run.optimizer is not None and not run.optimizer.state:
        run.step()  # makes the optimizer's state, as the first of many steps does; the traced one is a later one
    timer = Timer(run.plain_model, time_ns)
    begun: list[int] = []
    steps: list[tuple[int, int]] = []
    stepping = optimizer_steps(lambda _: begun.append(time_ns()), lambda: steps.append((begun.pop(), time_ns())))
    with timer.running(everywhere=True), stepping, device_trace(run.device, shapes=True) as events:
        run.step()
    spans = [*_modules(timer), *_work(events, timer, steps)]
    first = min((span.begin for span in spans), default=0)
    shifted = (replace(span, begin=span.begin - first, end=span.end - first) for span in spans)
    return tuple(sorted(shifted, key=lambda span: (span.begin, -span.end)))


def _modules(timer: Timer) -> Iterator[Span]:
    for thread, begin, end, path in timer.calls():
        yield Span(path.rpartition(".")[2] or type(timer.sites.roots[""]).__name__, "module", begin, end, thread, path)


def _work(events: list[TraceEvent], timer: Timer, steps: Sequence[tuple[int, int]]) -> Iterator[Span]:
    hosts = Hosts(events, Marks(timer.marks(), timer.maker_paths(), steps))
    for event in events:
        if event.device:
            host = hosts.launcher(event)
            path, phase = hosts.place(host) if host is not None else (OUTSIDE, "")
            yield Span(event.name, "kernel", event.begin, event.end, event.lane, path, phase=phase)
        elif event.name.startswith(("aten::", NODE)) or event.shapes:
            path, phase = hosts.place(event)
            yield Span(event.name, "op", event.begin, event.end, event.lane, path, event.shapes, phase)
