"""How long it takes without us: plain runs, and timed runs between them that say where the time goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from ..caveats import BusyMachine, Caveat, Distorted
from ..tree import Stat, Timing
from .clock import Clock, clock_for
from .inputs import Run
from .timing import Timer

TIME_BUDGET = 60.0
"""Seconds after which no further repeat begins."""
FEWEST = 2
"""Repeats that are made whatever they cost, so that a first slow one can be told from the rest."""
QUIET = 0.05
"""Spread or distortion above which a profile says so."""


@dataclass(frozen=True)
class Latencies:
    """Wall times of the whole, seconds by row, and what is doubtful about them."""

    timing: Timing = Timing()
    forward: Mapping[str, float] = field(default_factory=dict)
    backward: Mapping[str, float] = field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()


def measure_latency(run: Run, warmup: int, repeats: int, clock: Clock | None = None) -> Latencies:
    """Plain and timed runs in turn, so that a change of the machine's pace meets both alike."""
    clock = clock or clock_for(run.device)
    for _ in range(warmup):
        run.step()
    plain: list[dict[str, float]] = []
    timed: list[tuple[float, Mapping[str, float]]] = []
    begun = clock.now()
    for _ in range(repeats):
        plain.append(_plain(run, clock))
        timer = Timer(run.model, clock.now)
        with timer.running():
            walls = _plain(run, clock)
        timed.append((walls["forward"], timer.sums()))
        if len(plain) >= FEWEST and clock.now() - begun > TIME_BUDGET:
            break
    forward = Stat(tuple(walls["forward"] for walls in plain))
    distortion = median(wall for wall, _ in timed) / forward.median if forward.median else None
    stats = {name: Stat(tuple(walls[name] for walls in plain)) for name in plain[0]}
    # One whole pass, the median one: its rows add up, which medians by row would not.
    rows = sorted(timed, key=lambda one: one[0])[(len(timed) - 1) // 2][1]
    return Latencies(Timing(**stats, distortion=distortion), rows, caveats=tuple(_doubts(forward, distortion)))


def _plain(run: Run, clock: Clock) -> dict[str, float]:
    """One run, its parts timed from outside."""
    clock.wait()
    begin = clock.now()
    if not run.train:
        run.forward()
        clock.wait()
        return {"forward": clock.now() - begin}
    run.model.zero_grad(set_to_none=True)
    marks = [clock.now()]
    output = run.forward()
    for part in (lambda: run.backward(output), run.update):
        clock.wait()
        marks.append(clock.now())
        part()
    clock.wait()
    marks.append(clock.now())
    walls = {"forward": marks[1] - marks[0], "backward": marks[2] - marks[1]}
    if run.optimizer is not None:
        walls["optimizer"] = marks[3] - marks[2]
    return walls | {"step": marks[3] - marks[0]}


def _doubts(forward: Stat, distortion: float | None) -> list[Caveat]:
    doubts: list[Caveat] = []
    if forward.spread > 2 * QUIET:
        doubts.append(BusyMachine(forward.spread, len(forward.samples)))
    if distortion is not None and distortion > 1 + QUIET:
        doubts.append(Distorted(distortion))
    return doubts
