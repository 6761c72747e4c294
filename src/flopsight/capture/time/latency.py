"""Latency: plain runs give the time of the whole, and marked runs between them give the shares of the modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from statistics import median

from ...caveats import (
    BusyMachine,
    Caveat,
    CompiledWhole,
    Distorted,
    HeldBack,
    HostTimes,
    PaceChanged,
    UnplacedKernels,
)
from ...timings import TIME_BUDGET, Stat, Timing, middle
from ..model.run import Run, rotated
from .backward_marks import BackwardTimes
from .clock import HOSTS, Clock, clock_for
from .device_trace import DeviceTracing
from .kernels import TraceEvent, with_children
from .kineto import NoDeviceTrace
from .module_marks import Timer, forget
from .op_times import OpTimes
from .stream_events import run_held_back

FEWEST = 2
"""Repeats that are made even after the time budget is spent, so that a slow first one shows."""
QUIET = 0.05
"""Spread or distortion above which a profile says so."""
SHORT = 0.05
"""Seconds. A shorter run is slower right after marks were added or removed, so its first repeat is dropped."""
BLOCK = 5
"""Short runs of one kind in a row, after one that is dropped."""
STEADY = 0.1
"""Relative difference up to which two warm-up runs count as equal."""
MOST_WARMUP = 10
"""The most runs that warm-up adds to those asked for."""
WARMUP_BUDGET = 5.0
"""Seconds of warm-up after which none is added."""
HALVES = 8
"""From this many repeats on, the earlier half is compared with the later half."""
TRACES = 3
"""Runs under the device's tracer; the middle one is shown."""

Rows = Mapping[str, float]


@dataclass(frozen=True)
class Latencies:
    """Wall times of the whole, seconds by row, and what is doubtful about them."""

    timing: Timing = field(default_factory=Timing)
    forward: Rows = field(default_factory=dict)
    backward: Rows = field(default_factory=dict)
    host: Rows = field(default_factory=dict)
    streams: Rows = field(default_factory=dict)
    ops: OpTimes = field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()


@dataclass(frozen=True)
class HostPass:
    """One run with marks: its forward's wall time, and the host's seconds by row."""

    wall: float
    forward: Rows
    backward: Rows = field(default_factory=dict)


def measure_latency(
    run: Run,
    warmup: int,
    repeats: int,
    clock: Clock | None = None,
    *,
    budget: float = TIME_BUDGET,
    progress: Callable[[str], None] = forget,
) -> Latencies:
    """Time plain and marked runs in turn, so that a change of the machine's pace affects both; short ones in blocks."""
    clock = clock or clock_for(run.device)
    progress("warming up")
    last = _warm_up(run, clock, warmup)
    runs = cycle(rotated(run))
    plain: list[dict[str, float]] = []
    timed: list[HostPass] = []
    begun = clock.now()
    while len(plain) < repeats:
        spent = clock.now() - begun > budget
        if spent and len(plain) >= FEWEST:
            break
        short = last is not None and last < SHORT
        together = min(BLOCK if short and not spent else 1, repeats - len(plain))
        if short:
            run_plain(next(runs), clock)
        for _ in range(together):
            progress(f"timing, run {len(plain) + 1} of {repeats}")
            plain.append(run_plain(next(runs), clock))
        if not run.compiled:  # there is no module in it to put a mark on
            timed += run_with_marks([next(runs) for _ in range(together + short)], clock)[short:]
        last = _whole(plain[-1])
    timing = Timing()
    for name in plain[0]:
        timing = replace(timing, **{name: Stat(tuple(walls[name] for walls in plain))})  # type: ignore[arg-type]
    forward = timing.forward
    assert forward is not None
    if not timed:
        whole = Latencies(timing, {"": forward.median}, caveats=(*_doubts(forward, None), CompiledWhole()))
        return _with_device_time(run, whole, progress)
    distortion = median(one.wall for one in timed) / forward.median if forward.median else None
    found = Latencies(
        replace(timing, distortion=distortion),
        middle(timed, lambda one: one.wall).forward,
        middle(timed, lambda one: one.backward.get("", 0.0)).backward,
        caveats=tuple(_doubts(forward, distortion)),
    )
    return _with_device_time(run, found, progress)


def _warm_up(run: Run, clock: Clock, at_least: int) -> float | None:
    """Run as often as asked for, then until two runs in a row take the same time; give the seconds of the last one."""
    if not at_least:
        return None
    times: list[float] = []
    while len(times) < at_least + MOST_WARMUP:
        times.append(_whole(run_plain(run, clock)))
        steady = len(times) > 1 and abs(times[-1] - times[-2]) <= STEADY * times[-2]
        if len(times) >= at_least and (steady or sum(times) > WARMUP_BUDGET):
            break
    return times[-1]


def _whole(walls: Mapping[str, float]) -> float:
    """The time of a whole run: of the step in training, else of the forward."""
    return walls.get("step", walls["forward"])


def run_plain(run: Run, clock: Clock) -> dict[str, float]:
    """Run once with nothing attached, and time its parts from outside."""
    if not run.train:
        clock.wait()
        begin = clock.now()
        run.forward()
        clock.wait()
        return {"forward": clock.now() - begin}
    run.model.zero_grad(set_to_none=True)
    clock.wait()
    marks = [clock.now()]
    output = run.forward()
    clock.wait()
    marks.append(clock.now())
    run.backward(output)
    clock.wait()
    marks.append(clock.now())
    run.update()
    clock.wait()
    marks.append(clock.now())
    walls = {"forward": marks[1] - marks[0], "backward": marks[2] - marks[1], "step": marks[3] - marks[0]}
    return walls | ({"optimizer": marks[3] - marks[2]} if run.optimizer is not None else {})


def run_with_marks(runs: Sequence[Run], clock: Clock) -> list[HostPass]:
    """Runs in a row with marks around every module call and, in training, every autograd node."""
    timer = Timer(runs[0].plain_model, clock.now)
    with timer.running(
        sequences=runs[0].train
    ):  # patching takes a while: it clears the attribute caches of every module class
        return [_run_with_marks(run, timer, clock) for run in runs]


def _run_with_marks(run: Run, timer: Timer, clock: Clock) -> HostPass:
    timer.clear()
    if run.train:
        run.model.zero_grad(set_to_none=True)
    clock.wait()
    begin = clock.now()
    output = run.forward()
    clock.wait()
    wall = clock.now() - begin
    rows = timer.sums()
    if not run.train:
        return HostPass(wall, rows)
    nodes = BackwardTimes(timer, clock.now)
    with nodes.running():
        run.backward(output)
    run.update()
    return HostPass(wall, rows, with_children(nodes.by_row(), ()))


def _with_device_time(run: Run, found: Latencies, progress: Callable[[str], None]) -> Latencies:
    """On a device with a tracer, replace the host's times by kernel times."""
    if run.device.type in HOSTS:
        return found
    progress("tracing the device")
    try:
        traced = middle([run_traced(run) for _ in range(TRACES)], lambda one: one.found.busy)
    except NoDeviceTrace as problem:
        return _without_tracer(run, found, str(problem))
    timing = traced.timing(found.timing, training=run.train)
    if run.compiled:  # the kernels of a fused graph belong to no module in it
        return replace(found, timing=timing, forward={"": timing.busy or 0.0})
    return Latencies(
        timing,
        with_children(traced.forward(), found.forward),
        with_children(traced.backward(), ()) if run.train else {},
        found.forward,
        traced.streams(),
        traced.ops,
        (*found.caveats, *unplaced_work(traced)),
    )


def _without_tracer(run: Run, found: Latencies, why: str) -> Latencies:
    """Use events in a blocked stream, else the host's times; a caveat says which."""
    wall = found.timing.forward.median if found.timing.forward is not None else 0.0
    rows = None if run.compiled else run_held_back(run, wall)
    if rows is None:
        return replace(found, caveats=(*found.caveats, HostTimes(why)))
    timing = replace(found.timing, busy=rows.get(""))
    return replace(
        found, timing=timing, forward=rows, backward={}, host=found.forward, caveats=(*found.caveats, HeldBack(why))
    )


def run_traced(run: Run, keep: Callable[[list[TraceEvent]], object] = forget) -> DeviceTracing:
    """Run once under the device's tracer; `keep` is called with its events."""
    tracing = DeviceTracing(run.plain_model, run.device, keep)
    with tracing.running():
        run.step()
    return tracing


def traced_host_ops(run: Run, progress: Callable[[str], None] = forget) -> OpTimes:
    """On a CPU, the seconds of each op in one more, traced run; none where another profiler has the tracer."""
    if run.compiled or run.device.type != "cpu":
        return {}
    progress("tracing ops")
    try:
        return run_traced(run).ops
    except NoDeviceTrace:
        return {}


def unplaced_work(tracing: DeviceTracing) -> list[Caveat]:
    """A caveat for device work that belongs to no module, if there is any."""
    lost = tracing.found.unplaced
    return [UnplacedKernels(sum(lost.values()), tuple(lost))] if lost else []


def _doubts(forward: Stat, distortion: float | None) -> list[Caveat]:
    doubts: list[Caveat] = []
    middle = len(forward.samples) // 2
    earlier, later = Stat(forward.samples[:middle]), Stat(forward.samples[-middle:])
    change = later.median / earlier.median if len(forward.samples) >= HALVES and earlier.median else 1.0
    if abs(change - 1) > QUIET and max(earlier.spread, later.spread) < abs(change - 1) / 2:
        doubts.append(PaceChanged(change))
    elif forward.spread > 2 * QUIET:
        doubts.append(BusyMachine(forward.spread, len(forward.samples)))
    if distortion is not None and distortion > 1 + QUIET:
        doubts.append(Distorted(distortion))
    return doubts
