"""One run under the device's tracer, with marks on every thread that calls the model: device time by module, or spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import time_ns

import torch
from torch import nn

from ...results.records import BACKWARD, FORWARD, OPTIMIZER, OUTSIDE, RECOMPUTE, Span
from ...results.timings import Timing
from ..hooks.optimizer_steps import optimizer_steps
from ..model.model_run import ModelRun
from ..model.sites import Sites
from .clock import HOSTS
from .collective_times import CollectiveTimes, collective_times
from .kernels import NODE, DeviceTime, Hosts, Marks, TraceEvent, place_kernels
from .kineto import device_trace
from .module_marks import Timer, forget
from .op_seconds import OpTimes, op_times


class DeviceTracing:
    """Traces a block, `running()`; `found` and the times by row are ready after it."""

    def __init__(
        self, model: nn.Module | Sites, device: torch.device, keep: Callable[[list[TraceEvent]], object] = forget
    ) -> None:
        """`keep` is called with the events, which are large and not kept; their times by module are in `found`."""
        self.found = DeviceTime()
        self.ops: OpTimes = {}
        self.collectives: CollectiveTimes = {}
        self._timer = Timer(model, time_ns)
        self._device, self._keep = device, keep
        self._steps: list[tuple[int, int]] = []
        self._began = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Trace the block; `NoDeviceTrace` if that cannot be done."""
        with (
            optimizer_steps(self._begin_step, self._end_step),
            self._timer.running(everywhere=True),
            device_trace(self._device) as events,
        ):
            yield
        self.found = place_kernels(events, self.marks())
        self.ops = op_times(events, self.marks(), on_host=self._device.type in HOSTS)
        self.collectives = collective_times(events, self.marks())
        self._keep(events)

    def marks(self) -> Marks:
        """The notes taken beside the trace."""
        return Marks(self._timer.marks(), self._timer.maker_paths(), self._steps, tuple(self._timer.calls()))

    def _begin_step(self, _optimizer: torch.optim.Optimizer) -> None:
        self._began = time_ns()

    def _end_step(self) -> None:
        self._steps.append((self._began, time_ns()))

    def timing(self, timing: Timing, *, training: bool) -> Timing:
        """Add the device's busy and idle times to wall times."""
        wall = timing.forward.median if timing.forward is not None else None
        timing = replace(
            timing,
            busy=sum(self.forward().values()),
            idle=max(0.0, wall - self.found.covered) if wall is not None else None,
        )
        if not training:
            return timing
        stepping = sum(self.found.rows(OPTIMIZER).values())
        return replace(timing, backward_busy=sum(self.backward().values()), optimizer_busy=stepping or None)

    def streams(self) -> dict[str, float]:
        """Seconds on the stream by path; what ran outside every module is part of the root, as in its kernels."""
        found = dict(self.found.streams)
        if "" in found:
            found[""] += self.forward().get(OUTSIDE, 0.0)
        return found

    def forward(self) -> dict[str, float]:
        """Own seconds of forward kernels by path."""
        return self.found.rows(FORWARD)

    def backward(self) -> dict[str, float]:
        """Own seconds of backward kernels by path, recomputed forward included."""
        rows = self.found.rows(BACKWARD)
        for path, seconds in self.found.rows(RECOMPUTE).items():
            rows[path] = rows.get(path, 0.0) + seconds
        return rows


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
