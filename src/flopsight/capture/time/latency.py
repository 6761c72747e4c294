"""How long it takes without us: plain runs, and between them timed runs that say where the time goes."""

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
from .stream_events import held_back_pass

FEWEST = 2
"""Repeats that are made whatever they cost, so that a first slow one can be told from the rest."""
QUIET = 0.05
"""Spread or distortion above which a profile says so."""
SHORT = 0.05
"""Seconds of a run under which the first after a change, of marks that came or went, is slower than the next."""
BLOCK = 5
"""Short runs of one kind in a row, after one that is not looked at."""
STEADY = 0.1
"""Difference between two warm-up runs under which they are the same."""
MOST_WARMUP = 10
"""Runs that warm-up adds at the most to those asked for."""
WARMUP_BUDGET = 5.0
"""Seconds of warm-up after which none is added."""
HALVES = 8
"""Repeats from which on the earlier ones are compared with the later ones."""
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
    """Plain and timed runs in turn, so that a change of the machine's pace meets both alike; short ones in blocks."""
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
            plain_pass(next(runs), clock)
        for _ in range(together):
            progress(f"timing, run {len(plain) + 1} of {repeats}")
            plain.append(plain_pass(next(runs), clock))
        if not run.compiled:  # there is no module in it to put a mark on
            timed += host_passes([next(runs) for _ in range(together + short)], clock)[short:]
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
    """As many runs as asked for, then on until two in a row take the same time, within reason; what the last one took."""
    if not at_least:
        return None
    times: list[float] = []
    while len(times) < at_least + MOST_WARMUP:
        times.append(_whole(plain_pass(run, clock)))
        steady = len(times) > 1 and abs(times[-1] - times[-2]) <= STEADY * times[-2]
        if len(times) >= at_least and (steady or sum(times) > WARMUP_BUDGET):
            break
    return times[-1]


def _whole(walls: Mapping[str, float]) -> float:
    """The time of a run, whose parts are timed beside it."""
    return walls.get("step", walls["forward"])


def plain_pass(run: Run, clock: Clock) -> dict[str, float]:
    """One run with nothing attached, its parts timed from outside."""
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


def host_passes(runs: Sequence[Run], clock: Clock) -> list[HostPass]:
    """Runs in a row with marks around every module call and, in training, every autograd node."""
    timer = Timer(runs[0].plain_model, clock.now)
    with timer.running(sequences=runs[0].train):  # putting it on takes a while: every class of modules hears of it
        return [_host_pass(run, timer, clock) for run in runs]


def _host_pass(run: Run, timer: Timer, clock: Clock) -> HostPass:
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
    """On a device, kernel times by module in place of the host's, where its tracer works."""
    if run.device.type in HOSTS:
        return found
    progress("tracing the device")
    try:
        traced = middle([traced_pass(run) for _ in range(TRACES)], lambda one: one.found.busy)
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
        (*found.caveats, *unplaced(traced)),
    )


def _without_tracer(run: Run, found: Latencies, why: str) -> Latencies:
    """Events in a stream that is held back, else the host's times; each says what it is."""
    wall = found.timing.forward.median if found.timing.forward is not None else 0.0
    rows = None if run.compiled else held_back_pass(run, wall)
    if rows is None:
        return replace(found, caveats=(*found.caveats, HostTimes(why)))
    timing = replace(found.timing, busy=rows.get(""))
    return replace(
        found, timing=timing, forward=rows, backward={}, host=found.forward, caveats=(*found.caveats, HeldBack(why))
    )


def traced_pass(run: Run, keep: Callable[[list[TraceEvent]], object] = forget) -> DeviceTracing:
    """One run under the device's tracer; `keep` is handed its events."""
    tracing = DeviceTracing(run.plain_model, run.device, keep)
    with tracing.running():
        run.step()
    return tracing


def unplaced(tracing: DeviceTracing) -> list[Caveat]:
    """The doubt that some device work belongs to no module, if there is any such work."""
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
