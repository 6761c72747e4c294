"""Steps become intervals: each step is in exactly one, and an interval is handed over when its times are known."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from math import isnan, nan
from time import sleep, time
from typing import Any

from ...results.run import Interval
from .counted_work import Work
from .process_memory import MemoryUse
from .step import Step, Sums
from .step_clock import Moment, StepClock

PATIENCE = 2.0
"""Seconds that the end of a run waits for a device to come to its last step."""
MOST_WAITING = 16
"""Steps that wait to be read, if an interval has more: they are read in one go, which takes less time for each."""
MOST_UNKNOWN = 1000
Timed = tuple[int, Step, float, float]
"""Number and step, its seconds and those of data wait."""
MakeInterval = Callable[..., Interval]
"""Makes an interval, with what else is known of it."""


class Intervals:
    """Collects steps in the order of the loop; a step waits here until the device has come to its end."""

    def __init__(
        self,
        clock: StepClock,
        every: int,
        on_steps: Callable[[list[Timed]], None],
        on_interval: Callable[[MakeInterval, MemoryUse], None],
        found_later: Callable[[Hashable], Work],
    ) -> None:
        """`on_steps` gets steps when their times are known, without those that we slowed.

        `on_interval` gets a function that makes the interval, and the memory in use at its end.
        """
        self._clock = clock
        self._every = every
        self._on_steps, self._on_interval = on_steps, on_interval
        self._waiting: deque[Step] = deque()
        self._found_later = found_later
        self._sum = IntervalSum(0)
        self.memory: Callable[[], MemoryUse] = MemoryUse
        """Reads what is in use now."""
        self._incomplete: IntervalSum | None = None
        """The last interval, if the work of a step was not known when it ended: the next one may be counted."""

    def step_ended(self, held: Sequence[Step]) -> None:
        """The last of the steps that are still `held` has ended just now: read the memory, if an interval ends with it."""
        if (self._sum.steps + len(self._waiting) + len(held)) % self._every == 0:
            held[-1].memory = self.memory()

    def add(self, step: Step) -> None:
        """Take a step; hands on the intervals that are complete by now."""
        waiting = self._waiting
        waiting.append(step)
        if len(waiting) >= MOST_WAITING or self._sum.steps + len(waiting) >= self._every:
            self._read()

    def finish(self) -> None:
        """The rest: waits a little for the device, then gives what is known."""
        waited = 0.0
        while self._waiting and not self._reached(self._waiting[-1]) and waited < PATIENCE:
            sleep(0.01)
            waited += 0.01
        self._read()
        for step in self._waiting:
            self._sum.pauses.add(step, 0.0, 0.0)
            self._sum.add(step)
        self._waiting.clear()
        if self._sum.steps:
            self._end_interval()
        self._give_incomplete()

    def _reached(self, step: Step) -> bool:
        try:
            return self._clock.reached(step.time.ended)
        except Exception:  # a device that has failed reaches nothing
            return False

    def _read(self) -> None:
        waiting, clock, queues = self._waiting, self._clock, self._clock.queues
        timed: list[Timed] = []
        while waiting and (not queues or self._reached(waiting[0])):
            step, whole = waiting.popleft(), self._sum
            of = step.time
            seconds = clock.seconds(of.began, of.ended) if queues else of.ended - of.began
            if of.validated or of.counted or of.saved:
                validated, saved = self._spans(of.validated), self._spans(of.saved)
                whole.pauses.add(step, validated, saved)
                seconds = max(0.0, seconds - validated - saved - self._spans(of.counted))
            if step.slowed:
                whole.add(step)
            else:
                wait = 0.0 if of.first_call is None else max(0.0, of.first_call - of.host_began)
                timed.append((whole.first + whole.steps, step, seconds, wait))
                whole.add(step, seconds, wait)
            if queues:
                clock.reuse(of.began)
            if whole.steps == self._every:
                self._on_steps(timed)
                timed = []
                self._end_interval()
        if timed:
            self._on_steps(timed)

    def _end_interval(self) -> None:
        self._give_incomplete()
        whole = self._sum
        self._sum = IntervalSum(whole.first + whole.steps)
        if whole.unknown and not self._later(whole):
            self._incomplete = whole
        else:
            self._give(whole)

    def _give_incomplete(self) -> None:
        whole, self._incomplete = self._incomplete, None
        if whole is not None:
            self._give(whole)

    def _give(self, whole: IntervalSum) -> None:
        self._on_interval(partial(whole.interval, self._found_later), whole.memory or self.memory())

    def _later(self, whole: IntervalSum) -> bool:
        """Whether the work of all its steps has become known."""
        return not any(isnan(self._found_later(key).flops) for key, _ in whole.unknown)

    def _spans(self, spans: Iterable[tuple[Moment, Moment]]) -> float:
        return sum(self._clock.seconds(begin, end) for begin, end in spans)


class PauseSum:
    """What the loop did outside its steps, as an interval has it."""

    def __init__(self) -> None:
        self.validations = self.saves = 0
        self.validation_seconds = self.saving_seconds = 0.0

    def add(self, step: Step, validated: float, saved: float) -> None:
        """Add the pauses of a step, and how long they took."""
        self.validations += step.validations
        self.saves += len(step.time.saved)
        self.validation_seconds += validated
        self.saving_seconds += saved


class TimeSum:
    """Times of the steps that were not slowed, as an interval has them."""

    def __init__(self) -> None:
        self.timed = 0
        self.seconds = self.waited = self.called = 0.0


class IntervalSum:
    """Sums over the steps of the interval under way; a figure that is not known of a step is nan, and so is its sum."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.steps = self.skipped = 0
        self.memory: MemoryUse | None = None
        """In use at the end of its last step."""
        self.unknown: list[tuple[Hashable, bool]] = []
        """Steps whose work was not known when they ended, and whether they are timed."""
        self.pauses, self._times, self._sums = PauseSum(), TimeSum(), Sums()

    def add(self, step: Step, seconds: float | None = None, wait: float = 0.0) -> None:
        """Add a step; its seconds are None if they are not known, or slowed by counting."""
        self.steps += 1
        self.memory = step.memory
        mine, its = self._sums, step.sums
        flops = its.flops
        known = flops == flops  # noqa: PLR0124  nan is not
        if seconds is not None:
            times = self._times
            times.timed += 1
            times.seconds += seconds
            times.called += step.time.forward
            times.waited += wait
            if known:
                mine.at_peak += its.at_peak
                mine.all_at_peak += its.all_at_peak
            if step.masks:
                its.tokens += sum(int(mask) for mask in step.masks)
            mine.tokens += its.tokens or nan
            mine.samples += its.samples or nan
        if step.calls.number and known:
            mine.flops += flops
        elif step.calls.number and len(self.unknown) < MOST_UNKNOWN:
            self.unknown.append((step.calls.key, seconds is not None))
        else:
            mine.flops = mine.at_peak = mine.all_at_peak = nan
        if step.skipped:
            self.skipped += 1
        if its.estimated:
            mine.estimated += 1

    def interval(self, found_later: Callable[[Hashable], Work], **read: Any) -> Interval:
        """The interval as a value, with what was `read` at its end; the work of a step may have become known since the step ended."""
        sums, timed = self._sums, self._times.timed > 0
        for key, also_timed in self.unknown:
            work = found_later(key)
            sums.flops += work.flops
            if also_timed:
                sums.at_peak += work.at_peak
                sums.all_at_peak += work.all_at_peak
        return Interval(
            first=self.first,
            steps=self.steps,
            total_model_flops=_known(sums.flops),
            at_peak=_known(sums.at_peak) if timed else None,
            all_at_peak=_known(sums.all_at_peak) if timed else None,
            tokens=_whole(sums.tokens) if timed else None,
            samples=_whole(sums.samples) if timed else None,
            skipped=self.skipped,
            estimated=sums.estimated,
            ended=time(),
            **vars(self._times),
            **vars(self.pauses),
            **read,
        )


def _known(value: float) -> float | None:
    return None if isnan(value) else value


def _whole(value: float) -> int | None:
    return None if isnan(value) else int(value)
