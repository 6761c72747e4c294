"""The run as it grows: intervals with memory and energy, step times, slow steps; each interval goes to every sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from ...capture.model.model_run import ModelRun
from ...distributed.shards import inside
from ...distributed.topology import world_of
from ...engine.run_profile import environment
from ...files.run_file import VALUES, line_of, totals_of
from ...results.run import Interval, Run, thinned
from .call_work import CallWork
from .deliveries import Delivery, Figures
from .energy import EnergyMeter, energy_counter
from .intervals import Intervals
from .process_memory import memory_use
from .rank_exchange import RankExchange
from .slow_steps import SlowSteps
from .step import Step
from .step_times import StepTimes

MOST_KEPT = 2000
"""Intervals that are kept in memory; neighbours are joined when there are more."""


class Series:
    """Everything that was measured so far."""

    def __init__(self, deliveries: Sequence[Delivery]) -> None:
        self.complete = 0
        """Intervals that were handed over."""
        self.latest: Interval | None = None
        self._deliveries = deliveries
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

    def begin(self, intervals: Intervals, work: CallWork, device: torch.device, models: Sequence[nn.Module]) -> None:
        """A loop begins."""
        self._intervals, self._work, self._device = intervals, work, device
        self._slow = SlowSteps(queues=device.type not in ("cpu", "meta"))
        if models:
            self.name(models)
        self._ranks = RankExchange.of(self._head.world)
        counter = energy_counter(device)
        if counter is not None:
            self._meter = EnergyMeter(counter, lambda: intervals.steps)
            self._meter.start()

    def name(self, models: Sequence[nn.Module]) -> None:
        """Note what is trained, and where."""
        names = ", ".join(type(inside(model)).__name__ for model in models)
        self._head = Run(names, environment(ModelRun(models[0])), world_of(models))

    def timed(self, number: int, step: Step, seconds: float) -> None:
        """A step's time is known."""
        if not step.slowed:
            self._times.add(seconds)
            slow = self._slow.add(number, step, seconds)
            if slow is not None and self._work is not None and self._work.slow is not None:
                self._work.slow.want(step)

    def hand_over(self, interval: Interval) -> None:
        """Give an interval to every sink, with what is read once an interval."""
        memory = memory_use(self._device)
        interval = replace(interval, peak_bytes=memory.peak, allocated_bytes=memory.allocated)
        used = self._meter.take() if self._meter is not None else None
        if used is not None:
            interval = replace(interval, energy=used[0], metered=used[1])
        self.complete += 1
        self.latest = interval
        self._kept.append(interval)
        if len(self._kept) > MOST_KEPT:
            self._kept[:] = thinned(self._kept, MOST_KEPT // 2)
        if self._deliveries or self._ranks is not None:
            self._deliver(interval)

    def _deliver(self, interval: Interval) -> None:
        figures = Figures(interval.figures())
        if self._ranks is not None:
            figures.update(self._ranks.put(interval))
        run = self._run(())
        slow = [VALUES.encode(step) for step in self._slow.take()]
        figures.line = line_of(interval, None if self._begun else run, slow=slow, **totals_of(run))
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
            for interval in self._intervals.finish():
                self.hand_over(interval)

    def run(self) -> Run:
        """The run so far."""
        return self._run(tuple(self._kept))

    def _run(self, intervals: tuple[Interval, ...]) -> Run:
        work, low, high = self._work, self._times.quantile(0.25), self._times.quantile(0.75)
        return replace(
            self._head,
            intervals=intervals,
            slow=tuple(sorted(self._slow.found, key=lambda slow: slow.step)) if intervals else (),
            median_seconds=self._times.quantile(0.5),
            quartiles=None if low is None or high is None else (low, high),
            shapes=0 if work is None else len(work.counted.known),
            notes=self._notes(),
            profile=None if work is None else work.counted.first,
        )

    def _notes(self) -> tuple[str, ...]:
        if self._work is None:
            return ()
        if self._kept and not self._work.called:
            return (
                "No call of the model was seen, so its FLOPs are not known: call model(...), not model.forward(...).",
            )
        return tuple(self._work.notes)
