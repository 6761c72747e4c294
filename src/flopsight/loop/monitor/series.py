"""The run as it grows: intervals with memory and energy, step times, slow steps; each interval goes to every sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from ...capture.model.model_run import ModelRun
from ...capture.time.clock import HOSTS
from ...distributed.shards import inside
from ...distributed.topology import world_of
from ...engine.run_profile import environment
from ...files.run_file import VALUES, line_of, totals_of
from ...results.run import Interval, Run, SlowStep, thinned
from .call_work import CallWork
from .deliveries import Delivery, Figures
from .energy import EnergyMeter, energy_counter
from .intervals import Intervals, MakeInterval, Timed
from .process_memory import MemoryUse, memory_use
from .rank_exchange import RankExchange
from .slow_steps import SlowSteps
from .step_book import StepBook
from .step_times import StepTimes

MOST_KEPT = 400
"""Intervals that are kept in memory; neighbours are joined when there are more."""

UNSEEN = (
    "No call of the model was seen, so its FLOPs are not known: call model(...), not model.forward(...), and compile the "
    "model, not a function that calls it."
)
ENDLESS = "The model was called, but no step ended: give the optimizer that updates it, or call live.step() at the end of each step."
UNTRAINED = "The model was called without gradients only, which is a validation, so no step has FLOPs."


class Series:
    """Everything that was measured so far."""

    def __init__(self, deliveries: Sequence[Delivery]) -> None:
        self.complete = 0
        """Intervals that were handed over."""
        self.latest: Interval | None = None
        self._deliveries = deliveries
        self._lines = any(delivery.takes_lines for delivery in deliveries)
        self._kept: list[Interval] = []
        self._times = StepTimes()
        self._slow = SlowSteps(queues=False)
        self._intervals: Intervals | None = None
        self._work: CallWork | None = None
        self._meter: EnergyMeter | None = None
        self._ranks: RankExchange | None = None
        self._device = torch.device("cpu")
        self._head = Run()
        """What is trained, and where."""
        self._begun = False

    def begin(self, intervals: Intervals, book: StepBook, device: torch.device, models: Sequence[nn.Module]) -> None:
        """A loop begins."""
        self._intervals, self._work, self._device = intervals, book.work, device
        self._slow = SlowSteps(queues=device.type not in HOSTS, retries=lambda: memory_use(device).retries)
        names = ", ".join(type(inside(model)).__name__ for model in models)
        self._head = Run(names, environment(ModelRun(models[0])), world_of(models))
        self._ranks = RankExchange.of(self._head.world)
        counter = energy_counter(device)
        if counter is not None:
            self._meter = EnergyMeter(counter, lambda: book.ended, lambda: book.pauses.number)
            self._meter.start()

    def timed(self, steps: list[Timed]) -> None:
        """The times of some steps are known."""
        self._times.add([seconds for _, _, seconds, _ in steps])
        slow = self._slow.add(steps)
        if slow and self._work is not None and self._work.slow is not None:
            for step in slow:
                self._work.slow.want(step)

    def hand_over(self, make: MakeInterval, memory: MemoryUse) -> None:
        """Give an interval to every sink, with what is read once an interval."""
        self._slow.retried = memory.retries
        energy, metered = (None if self._meter is None else self._meter.take()) or (None, 0)
        interval = make(
            peak_bytes=memory.peak,
            allocated_bytes=memory.allocated,
            energy=energy,
            metered=metered,
            idle_watts=None if self._meter is None else self._meter.idle_watts,
        )
        self.complete += 1
        self.latest = interval
        self._kept.append(interval)
        if len(self._kept) > MOST_KEPT:
            self._kept[:] = thinned(self._kept, MOST_KEPT // 2)
        if self._deliveries or self._ranks is not None:
            self._deliver(interval)

    def _deliver(self, interval: Interval) -> None:
        figures, slow = Figures(interval.figures()), self._slow.take()
        if self._ranks is not None:
            figures.update(self._ranks.put(interval, slow))
        if self._lines:
            figures.line = partial(_line, interval, self._run(()), slow, first=not self._begun)
            self._begun = True
        for delivery in self._deliveries:
            delivery.put(interval, figures)

    def finish(self) -> None:
        """The loop is over: hand over the rest."""
        if self._ranks is not None:
            self._ranks.finish()
        if self._meter is not None:
            self._meter.finish()
        if self._intervals is not None:
            self._intervals.finish()

    def run(self) -> Run:
        """The run so far."""
        return self._run(tuple(self._kept))

    def _run(self, intervals: tuple[Interval, ...]) -> Run:
        work, times = self._work, self._times.quantiles(0.25, 0.5, 0.75)
        return replace(
            self._head,
            intervals=intervals,
            slow=self._slow_steps() if intervals else (),
            median_seconds=None if times is None else times[1],
            quartiles=None if times is None else (times[0], times[2]),
            shapes=0 if work is None else len(work.counted.known),
            notes=self._notes(),
            profile=None if work is None else work.counted.first,
        )

    def _slow_steps(self) -> tuple[SlowStep, ...]:
        found = self._slow.found
        return found if self._ranks is None else tuple(map(self._ranks.explained, found))

    def _notes(self) -> tuple[str, ...]:
        if self._work is None:
            return ()
        if not self._kept and self._work.called:
            return (*self._work.notes, ENDLESS)
        if self._kept and not self._work.called:
            return (UNSEEN if not any(one.validations for one in self._kept) else UNTRAINED,)
        return tuple(self._work.notes)


def _line(interval: Interval, run: Run, slow: Sequence[SlowStep], *, first: bool) -> str:
    """What a file gets of an interval; the first line has the counted step's profile in it."""
    return line_of(interval, run if first else None, slow=[VALUES.encode(step) for step in slow], **totals_of(run))
