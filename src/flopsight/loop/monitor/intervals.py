"""Steps become intervals: each step is in exactly one, and an interval is handed over when its times are known."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from time import sleep

from ...results.run import Interval
from .counted_work import Work
from .interval_sum import IntervalSum
from .step import Step
from .step_clock import Moment, StepClock

PATIENCE = 2.0
"""Seconds that the end of a run waits for a device to come to its last step."""


class Intervals:
    """Collects steps in the order of the loop; a step waits here until the device has come to its end."""

    def __init__(
        self,
        clock: StepClock,
        every: int,
        on_step: Callable[[int, Step, float], None],
        found_later: Callable[[Hashable], Work | None],
    ) -> None:
        """`on_step` is called with the number, the step and its seconds, when these are known."""
        self.steps = 0
        """Steps that were handed over to us."""
        self._clock = clock
        self._every = every
        self._on_step = on_step
        self._waiting: deque[Step] = deque()
        self._found_later = found_later
        self._sum = IntervalSum(0, found_later)

    def add(self, step: Step) -> list[Interval]:
        """Take a step; gives the intervals that are complete by now."""
        self.steps += 1
        self._waiting.append(step)
        return self._read()

    def finish(self) -> list[Interval]:
        """The rest: waits a little for the device, then gives what is known."""
        waited = 0.0
        while self._waiting and not self._reached(self._waiting[-1]) and waited < PATIENCE:
            sleep(0.01)
            waited += 0.01
        done = self._read()
        for step in self._waiting:
            self._sum.add(step, None, 0.0, on_host=False)
        self._waiting.clear()
        rest, self._sum = self._sum, IntervalSum(self._sum.first + self._sum.steps, self._found_later)
        return [*done, rest.interval()] if rest.steps else done

    def _reached(self, step: Step) -> bool:
        try:
            return self._clock.reached(step.ended)
        except Exception:  # a device that has failed reaches nothing
            return False

    def _read(self) -> list[Interval]:
        done = []
        while self._waiting and self._reached(self._waiting[0]):
            step = self._waiting.popleft()
            validated, counted = self._spans(step.validation_spans), self._spans(step.counting_spans)
            seconds = max(0.0, self._clock.seconds(step.began, step.ended) - validated - counted)
            self._on_step(self._sum.first + self._sum.steps, step, seconds)
            self._sum.add(step, None if step.slowed else seconds, validated, on_host=not self._clock.queues)
            if self._sum.steps == self._every:
                done.append(self._sum.interval())
                self._sum = IntervalSum(self._sum.first + self._sum.steps, self._found_later)
        return done

    def _spans(self, spans: list[tuple[Moment, Moment]]) -> float:
        return sum(self._clock.seconds(begin, end) for begin, end in spans) if spans else 0.0
