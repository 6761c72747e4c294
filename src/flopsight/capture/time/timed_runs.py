"""Single runs of a model with their times: plain ones, whole training steps in a row, and ones with marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..model.model_run import ModelRun
from .backward_marks import BackwardTimes
from .clock import Clock
from .kernels import with_children
from .module_marks import Timer

Rows = Mapping[str, float]
"""Seconds by module path, submodules included."""


def run_plain(run: ModelRun, clock: Clock) -> dict[str, float]:
    """Run once with nothing attached, and time its phases from outside, with a wait for the device after each.

    If there is nothing to wait for, the phases add up to the step. On a device the waits would make it too long,
    so `run_steps` times it.
    """
    forward = run.prepared()
    if not run.train:
        clock.wait()
        begin = clock.now()
        forward()
        clock.wait()
        return {"forward": clock.now() - begin}
    run.model.zero_grad(set_to_none=True)
    clock.wait()
    marks = [clock.now()]
    output = forward()
    clock.wait()
    marks.append(clock.now())
    run.backward(output)
    clock.wait()
    marks.append(clock.now())
    run.update()
    clock.wait()
    marks.append(clock.now())
    walls = {"forward": marks[1] - marks[0], "backward": marks[2] - marks[1]}
    if run.optimizer is not None:
        walls["optimizer"] = marks[3] - marks[2]
    return walls if clock.queues else walls | {"step": marks[3] - marks[0]}


def run_steps(runs: Sequence[ModelRun], clock: Clock) -> list[float]:
    """Run training steps in a row as a loop does, with a wait before the first and after the last; seconds of each."""
    prepared = [run.prepared() for run in runs]
    clock.wait()
    marks = [clock.mark()]
    for run, forward in zip(runs, prepared, strict=True):
        run.train_once(forward)
        marks.append(clock.mark())
    clock.wait()
    return [clock.seconds(begin, end) for begin, end in pairwise(marks)]


@dataclass(frozen=True)
class MarkedRun:
    """The wall times of a run with marks, and the host's seconds by row."""

    wall: float
    forward: Rows
    backward_wall: float = 0.0
    backward: Rows = field(default_factory=dict)


def run_with_marks(runs: Sequence[ModelRun], clock: Clock) -> list[MarkedRun]:
    """Run in a row with marks around every module call and, in training, every autograd node."""
    timer = Timer(runs[0].plain_model, clock.now)
    # one timer for all: patching takes a while, as it clears the attribute caches of every module class
    with timer.running(sequences=runs[0].train):
        return [_run_with_marks(run, timer, clock) for run in runs]


def _run_with_marks(run: ModelRun, timer: Timer, clock: Clock) -> MarkedRun:
    timer.clear()
    forward = run.prepared()
    if run.train:
        run.model.zero_grad(set_to_none=True)
    clock.wait()
    begin = clock.now()
    output = forward()
    clock.wait()
    wall = clock.now() - begin
    rows = timer.sums()
    if not run.train:
        return MarkedRun(wall, rows)
    nodes = BackwardTimes(timer, clock.now)
    with nodes.running():
        begin = clock.now()
        run.backward(output)
        backward_wall = clock.now() - begin
    run.update()
    return MarkedRun(wall, rows, backward_wall, with_children(nodes.by_row(), ()))
