"""Latency: plain runs give the time of the whole, and marked runs between them give the shares of the modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from math import inf
from statistics import median

from ...results.caveats import (
    BusyMachine,
    Caveat,
    CompiledWhole,
    CrowdedCores,
    Distorted,
    HeldBack,
    HostTimes,
    PaceChanged,
    PhasesApart,
    UnplacedKernels,
    UnsteadyModules,
)
from ...results.timings import TIME_BUDGET, Stat, Timing, middle
from ..hooks import internals, parallel
from ..model.model_run import ModelRun, rotated
from .clock import HOSTS, Clock, clock_for
from .collective_times import CollectiveTimes
from .core_waits import Waits, longest_wait
from .device_trace import DeviceTracing
from .kernels import TraceEvent, with_children
from .kineto import NoDeviceTrace
from .module_marks import Timer, forget
from .op_seconds import OpTimes
from .timed_runs import MarkedRun, Rows, run_plain, run_steps, run_with_marks

FEWEST = 2
"""Repeats that are made even after the time budget is spent, so that a slow first one shows."""
QUIET = 0.05
"""Spread or distortion above which a profile says so."""
CROWDED = 0.1
"""Share of the time spent waiting for a free core above which a profile says so."""
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

UNSTEADY = 0.25
"""Spread of a module's share, from run to run, above which a profile names the module."""
MATTERS = 0.02
"""Share of the forward below which a module is not named for its spread."""
MOST_NAMED = 5
FEWEST_FOR_SPREAD = 5
"""Runs below which a spread by module says nothing."""


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
    collectives: CollectiveTimes = field(default_factory=dict)


def measure_latency(
    run: ModelRun,
    warmup: int,
    repeats: int,
    clock: Clock | None = None,
    *,
    budget: float = TIME_BUDGET,
    progress: Callable[[str], None] = forget,
) -> Latencies:
    """Time plain and marked runs in turn, so that a change of the machine's pace affects both; short ones in blocks."""
    clock = clock or clock_for(run.device)
    # Ranks wait for each other inside every run, so all of them make the same number of runs, whatever their clocks say.
    alone = not parallel.has_other_ranks()
    budget = budget if alone else inf
    progress("warming up")
    last = _warm_up(run, clock, warmup, until_steady=alone)
    runs = cycle(rotated(run))
    plain: list[dict[str, float]] = []
    marked: list[MarkedRun] = []
    steps: list[float] = []
    begun, waits = clock.now(), clock.core_waits()
    while len(plain) < repeats:
        spent = clock.now() - begun > budget
        if spent and len(plain) >= FEWEST:
            break
        short = alone and last is not None and last < SHORT
        together = min(BLOCK if short and not spent else 1, repeats - len(plain))
        if short:
            run_plain(next(runs), clock)
        for _ in range(together):
            progress(f"timing, run {len(plain) + 1} of {repeats}")
            plain.append(run_plain(next(runs), clock))
        if run.train and clock.queues:
            steps += run_steps([next(runs) for _ in range(together + short)], clock)[short:]
        if not run.compiled:  # there is no module in it to put a mark on
            marked += run_with_marks([next(runs) for _ in range(together + short)], clock)[short:]
        last = _whole(plain[-1])
    timing = _timing(plain, steps)
    forward = timing.forward
    assert forward is not None
    on_host = run.device.type in HOSTS
    doubts = [*_doubts(forward), *_crowded(clock, begun, waits), *(_phase_doubts(timing) if steps else ())]
    if not marked:
        whole = Latencies(timing, {"": forward.median}, caveats=(*doubts, CompiledWhole()))
        return whole if on_host else _with_device_time(run, whole, progress)
    with_marks = median(one.wall for one in marked)
    timing = replace(timing, distortion=with_marks / forward.median if forward.median else None)
    if not on_host:
        return _with_device_time(run, _rows(timing, marked, doubts), progress)
    return _scaled_rows(run, timing, marked, doubts)


def _timing(plain: Sequence[Mapping[str, float]], steps: Sequence[float]) -> Timing:
    """Medians and spreads of the phases, and of the whole step if it was timed by itself."""
    stats = {name: Stat(tuple(walls[name] for walls in plain)) for name in plain[0]}
    if steps:
        stats["step"] = Stat(tuple(steps))
    return replace(Timing(), **stats)  # type: ignore[arg-type]


def _rows(timing: Timing, marked: Sequence[MarkedRun], doubts: Sequence[Caveat]) -> Latencies:
    """Times by module as the median run with marks had them."""
    return Latencies(
        timing,
        middle(marked, lambda one: one.wall).forward,
        middle(marked, lambda one: one.backward_wall).backward,
        caveats=(*doubts, *_distorted(timing.distortion, scaled=False)),
    )


def _scaled_rows(run: ModelRun, timing: Timing, marked: Sequence[MarkedRun], doubts: Sequence[Caveat]) -> Latencies:
    """Times by module of the median run with marks, scaled to the plain runs, so that they add up to the latency shown.

    The root is the whole of a forward that calls it once; of a generation, the loop around it takes time too.
    """
    shown = middle(marked, lambda one: one.wall)
    once = run.method == "__call__" and not run.part
    forward = _scaled(shown.forward, (once and shown.forward.get("")) or shown.wall, timing.forward)
    shown = middle(marked, lambda one: one.backward_wall)
    backward = _scaled(shown.backward, shown.backward_wall, timing.backward)
    unsteady = _unsteady(marked, timing.forward)
    return Latencies(
        timing, forward, backward, caveats=(*doubts, *_distorted(timing.distortion, scaled=True), *unsteady)
    )


def _scaled(rows: Rows, measured: float, plain: Stat | None) -> Rows:
    if plain is None or not measured:
        return rows
    return {path: plain.median * (seconds / measured) for path, seconds in rows.items()}


def _unsteady(marked: Sequence[MarkedRun], forward: Stat | None) -> list[Caveat]:
    """A caveat for modules whose share of the forward differs from run to run, if there are any that matter."""
    if forward is None or len(marked) < FEWEST_FOR_SPREAD:
        return []
    shares: dict[str, list[float]] = {}
    for one in marked:
        for path, seconds in one.forward.items():
            shares.setdefault(path, []).append(seconds / one.wall if one.wall else 0.0)
    stats = {path: Stat(tuple(found)) for path, found in shares.items() if path}
    large = {path: stat for path, stat in stats.items() if stat.spread > UNSTEADY and stat.median > MATTERS}
    worst = sorted(large, key=lambda path: -large[path].median * large[path].spread)[:MOST_NAMED]
    return [UnsteadyModules(tuple(worst), tuple(large[path].spread for path in worst))] if worst else []


def _warm_up(run: ModelRun, clock: Clock, at_least: int, *, until_steady: bool = True) -> float | None:
    """Run as often as asked for, then until two runs in a row take the same time; give the seconds of the last one."""
    if not at_least:
        return None
    times: list[float] = []
    while len(times) < at_least + (MOST_WARMUP if until_steady else 0):
        times.append(_whole(run_plain(run, clock)))
        steady = len(times) > 1 and abs(times[-1] - times[-2]) <= STEADY * times[-2]
        if len(times) >= at_least and (steady or sum(times) > WARMUP_BUDGET):
            break
    return times[-1]


def _whole(walls: Mapping[str, float]) -> float:
    """The time of a whole run: of the step in training, else of the forward."""
    return walls.get("step") or sum(walls.values())


def _with_device_time(run: ModelRun, found: Latencies, progress: Callable[[str], None]) -> Latencies:
    """On a device with a tracer, replace the host's times by kernel times."""
    progress("tracing the device")
    try:
        traced = middle([run_traced(run) for _ in range(TRACES)], lambda one: one.found.busy)
    except NoDeviceTrace as problem:
        return _without_tracer(run, found, str(problem))
    timing = traced.timing(found.timing, training=run.train)
    if run.compiled:  # the kernels of a fused graph belong to no module in it
        return replace(found, timing=timing, forward={"": timing.busy or 0.0}, collectives=traced.collectives)
    return Latencies(
        timing,
        with_children(traced.forward(), found.forward),
        with_children(traced.backward(), ()) if run.train else {},
        found.forward,
        traced.streams(),
        traced.ops,
        (*found.caveats, *unplaced_work(traced)),
        traced.collectives,
    )


def _without_tracer(run: ModelRun, found: Latencies, why: str) -> Latencies:
    """Use events in a blocked stream, else the host's times; a caveat says which."""
    wall = found.timing.forward.median if found.timing.forward is not None else 0.0
    rows = None if run.compiled else run_held_back(run, wall)
    if rows is None:
        return replace(found, caveats=(*found.caveats, HostTimes(why)))
    timing = replace(found.timing, busy=rows.get(""))
    return replace(
        found, timing=timing, forward=rows, backward={}, host=found.forward, caveats=(*found.caveats, HeldBack(why))
    )


def run_traced(run: ModelRun, keep: Callable[[list[TraceEvent]], object] = forget) -> DeviceTracing:
    """Run once under the device's tracer; `keep` is called with its events."""
    tracing = DeviceTracing(run.plain_model, run.device, keep)
    with tracing.running():
        run.step()
    return tracing


def traced_host_ops(run: ModelRun, progress: Callable[[str], None] = forget) -> OpTimes:
    """On a CPU, the seconds of each op in one more, traced run; none if another profiler has the tracer."""
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


def _doubts(forward: Stat) -> list[Caveat]:
    doubts: list[Caveat] = []
    middle = len(forward.samples) // 2
    earlier, later = Stat(forward.samples[:middle]), Stat(forward.samples[-middle:])
    change = later.median / earlier.median if len(forward.samples) >= HALVES and earlier.median else 1.0
    if abs(change - 1) > QUIET and max(earlier.spread, later.spread) < abs(change - 1) / 2:
        doubts.append(PaceChanged(change))
    elif forward.spread > 2 * QUIET:
        doubts.append(BusyMachine(forward.spread, len(forward.samples)))
    return doubts


def _crowded(clock: Clock, begun: float, waits: Waits) -> list[Caveat]:
    """A caveat if a thread has since waited for a free core for longer than a quiet machine makes it wait."""
    seconds = clock.now() - begun
    share = min(1.0, longest_wait(waits, clock.core_waits()) / seconds) if seconds > 0 else 0.0
    return [CrowdedCores(share)] if share > CROWDED else []


def _phase_doubts(timing: Timing) -> list[Caveat]:
    """A caveat if the phases, timed with waits in between, take longer together than the step as one piece."""
    if timing.step is None:
        return []
    together = sum(stat.median for stat in (timing.forward, timing.backward, timing.optimizer) if stat is not None)
    apart = together / timing.step.median if timing.step.median else 1.0
    return [PhasesApart(apart)] if apart > 1 + QUIET / 2 else []


def _distorted(distortion: float | None, *, scaled: bool) -> list[Caveat]:
    """A caveat if runs with marks took another time than plain ones: longer, or on a busy machine shorter."""
    if distortion is None or abs(distortion - 1) <= QUIET:
        return []
    return [Distorted(distortion, scaled)]


MARGIN = 4.0
"""How many times the forward's wall time the stream is held."""


def run_held_back(run: ModelRun, seconds: float) -> dict[str, float] | None:
    """Device seconds of one forward by path; None if the model itself waits for the device, so that nothing is queued.

    Events between modules measure the device only while it has work queued. Otherwise they measure the host. So the
    stream is first blocked for a while, and the host queues the whole forward meanwhile.
    """
    if run.device.type != "cuda":
        return None

    clock = clock_for(run.device)
    timer = Timer(run.plain_model, clock.mark)
    clock.wait()
    internals.hold_stream(MARGIN * seconds)
    released = clock.mark()
    with timer.running():
        run.forward()
    ran_ahead = not released.query()
    clock.wait()
    return timer.sums(clock.seconds) if ran_ahead else None
