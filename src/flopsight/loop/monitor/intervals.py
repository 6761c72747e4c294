"""Steps become intervals: each step is in exactly one, and an interval is handed over when its times are known."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import sleep, time

from ...results.run import Interval
from .step import Step
from .step_clock import StepClock

PATIENCE = 2.0
"""Seconds that the end of a run waits for a device to come to its last step."""


class Intervals:
    """Collects steps in the order of the loop; a step waits here until the device has come to its end."""

    def __init__(self, clock: StepClock, every: int, on_step: Callable[[int, Step, float], None]) -> None:
        """`on_step` is called with the number, the step and its seconds, when these are known."""
        self.steps = 0
        """Steps that were handed over to us."""
        self.ready: Interval | None = None
        self._clock = clock
        self._every = every
        self._on_step = on_step
        self._waiting: deque[Step] = deque()
        self._number = 0
        self._sum: Interval | None = None

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
        rest, self._sum = self._sum, None
        left = [self._interval(step, None) for step in self._waiting]
        self._waiting.clear()
        for interval in left:
            rest = interval if rest is None else rest.joined(interval)
        return [*done, *([] if rest is None else [rest])]

    def _reached(self, step: Step) -> bool:
        try:
            return self._clock.reached(step.ended)
        except Exception:  # a device that has failed reaches nothing
            return False

    def _read(self) -> list[Interval]:
        done = []
        while self._waiting and self._reached(self._waiting[0]):
            step = self._waiting.popleft()
            seconds = self._seconds(step)
            self._on_step(self._number, step, seconds)
            interval = self._interval(step, seconds)
            self._sum = interval if self._sum is None else self._sum.joined(interval)
            if self._sum.steps == self._every:
                done.append(replace(self._sum, ended=time()))
                self._sum = None
        return done

    def _seconds(self, step: Step) -> float:
        spans = (*step.validation_spans, *step.counting_spans)
        apart = sum(self._clock.seconds(begin, end) for begin, end in spans)
        return max(0.0, self._clock.seconds(step.began, step.ended) - apart)

    def _interval(self, step: Step, seconds: float | None) -> Interval:
        number, self._number = self._number, self._number + 1
        timed = seconds is not None and not step.slowed
        work = step.work if step.calls else None
        tokens = None if step.tokens is None else step.tokens + sum(int(mask) for mask in step.masks)
        wait = 0.0 if step.first_call is None else max(0.0, step.first_call - step.host_began)
        spent = sum(self._clock.seconds(*span) for span in step.validation_spans) if seconds is not None else 0.0
        if not self._clock.queues:
            wait = max(0.0, wait - spent)
        return Interval(
            first=number,
            timed=int(timed),
            seconds=seconds if timed and seconds is not None else 0.0,
            total_model_flops=None if work is None else work.flops,
            at_peak=work.at_peak if work is not None and timed else None,
            all_at_peak=work.all_at_peak if work is not None and timed else None,
            tokens=tokens or None if timed else None,
            samples=step.samples or None if timed else None,
            waited=wait if timed else 0.0,
            skipped=int(step.skipped),
            estimated=int(work is not None and work.estimated),
            validations=step.validations,
            validation_seconds=spent,
            ended=time(),
        )
