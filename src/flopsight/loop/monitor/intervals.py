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
from .step import Step
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
            self._sum.add(step)
        self._waiting.clear()
        if self._sum.steps:
            self._end_interval()
        self._give_incomplete()

    def _reached(self, step: Step) -> bool:
        try:
            return self._clock.reached(step.ended)
        except Exception:  # a device that has failed reaches nothing
            return False

    def _read(self) -> None:
        waiting, clock, queues = self._waiting, self._clock, self._clock.queues
        timed: list[Timed] = []
        while waiting and (not queues or self._reached(waiting[0])):
            step, whole = waiting.popleft(), self._sum
            seconds = clock.seconds(step.began, step.ended) if queues else step.ended - step.began
            if step.validation_spans or step.counting_spans or step.saving_spans:
                whole.validated += (validated := self._spans(step.validation_spans))
                whole.saved += (saved := self._spans(step.saving_spans))
                seconds = max(0.0, seconds - validated - saved - self._spans(step.counting_spans))
            if step.slowed:
                whole.add(step)
            else:
                wait = 0.0 if step.first_call is None else max(0.0, step.first_call - step.host_began)
                timed.append((whole.first + whole.steps, step, seconds, wait))
                whole.add(step, seconds, wait)
            if queues:
                clock.reuse(step.began)
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


class IntervalSum:
    """Sums over the steps of the interval under way; a figure that is not known of a step is nan, and so is its sum."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.steps = 0
        self.memory: MemoryUse | None = None
        """In use at the end of its last step."""
        self.validated = self.saved = 0.0
        """Seconds of validations and checkpoints, which are in no step."""
        self.unknown: list[tuple[Hashable, bool]] = []
        """Steps whose work was not known when they ended, and whether they are timed."""
        self._timed = 0
        self._seconds = self._waited = self._called = 0.0
        self._flops = self._at_peak = self._all_at_peak = 0.0
        self._tokens = self._samples = 0.0
        self._skipped = self._estimated = self._validations = self._saves = 0

    def add(self, step: Step, seconds: float | None = None, wait: float = 0.0) -> None:
        """Add a step; its seconds are None if they are not known, or slowed by counting."""
        self.steps += 1
        self.memory = step.memory
        flops = step.flops
        known = flops == flops  # noqa: PLR0124  nan is not
        if seconds is not None:
            self._timed += 1
            self._seconds += seconds
            self._called += step.forward
            self._waited += wait
            if known:
                self._at_peak += step.at_peak
                self._all_at_peak += step.all_at_peak
            if step.masks:
                step.tokens += sum(int(mask) for mask in step.masks)
            self._tokens += step.tokens or nan
            self._samples += step.samples or nan
        if step.calls and known:
            self._flops += flops
        elif step.calls and len(self.unknown) < MOST_UNKNOWN:
            self.unknown.append((step.key, seconds is not None))
        else:
            self._flops = self._at_peak = self._all_at_peak = nan
        if step.skipped:
            self._skipped += 1
        if step.estimated:
            self._estimated += 1
        if step.validations:
            self._validations += step.validations
        if step.saving_spans:
            self._saves += len(step.saving_spans)

    def interval(self, found_later: Callable[[Hashable], Work], **read: Any) -> Interval:
        """The interval as a value, with what was `read` at its end; the work of a step may have become known since the step ended."""
        for key, timed in self.unknown:
            work = found_later(key)
            self._flops += work.flops
            if timed:
                self._at_peak += work.at_peak
                self._all_at_peak += work.all_at_peak
        timed = self._timed > 0
        return Interval(
            first=self.first,
            steps=self.steps,
            timed=self._timed,
            seconds=self._seconds,
            total_model_flops=_known(self._flops),
            at_peak=_known(self._at_peak) if timed else None,
            all_at_peak=_known(self._all_at_peak) if timed else None,
            tokens=_whole(self._tokens) if timed else None,
            samples=_whole(self._samples) if timed else None,
            waited=self._waited,
            called=self._called,
            skipped=self._skipped,
            estimated=self._estimated,
            validations=self._validations,
            validation_seconds=self.validated,
            saves=self._saves,
            saving_seconds=self.saved,
            ended=time(),
            **read,
        )


def _known(value: float) -> float | None:
    return None if isnan(value) else value


def _whole(value: float) -> int | None:
    return None if isnan(value) else int(value)
