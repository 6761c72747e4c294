"""A run of many steps holds no more than a short one; `bench/monitor.py` makes 100,000 real ones."""

import gc
import tracemalloc

import torch
from loop.monitor.training import mlp

from flopsight.loop.monitor.call_work import CallWork
from flopsight.loop.monitor.intervals import Intervals
from flopsight.loop.monitor.series import Series
from flopsight.loop.monitor.step import Step
from flopsight.loop.monitor.step_book import StepBook
from flopsight.loop.monitor.step_clock import StepClock

SPARE = 700_000
"""Bytes that 400 kept intervals and 200 slow steps may take."""


def test_20_000_steps_hold_no_more_than_1_000():
    cpu = torch.device("cpu")
    model, clock = mlp(), StepClock(cpu)
    work, series = CallWork([model], None, clock, cpu), Series([])
    intervals = Intervals(clock, 10, series.timed, series.hand_over, work.found_later)
    book = StepBook(work, clock, None, intervals.add, lambda _problem: None)
    series.begin(intervals, book, cpu, [model])

    def run(steps):
        for number in range(steps):
            step = Step(0.0, 0.0)
            step.time.ended = 1.0 if number % 37 else 5.0  # every 37th is slow
            step.time.first_call, step.calls.number = 0.1, 1
            step.sums.flops, step.sums.tokens, step.sums.samples = 100.0, 8.0, 2.0
            intervals.add(step)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        early, late = run(1_000), run(19_000)
    finally:
        tracemalloc.stop()

    assert series.run().steps == 20_000
    assert late - early < SPARE
