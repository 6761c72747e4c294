"""Sums over the steps of the interval under way: plain numbers, because every step passes here."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import time

from ...results.run import Interval
from .counted_work import NOTHING, Work
from .step import Step

MOST_UNKNOWN = 1000

FLOPS, AT_PEAK, ALL_AT_PEAK, TOKENS, SAMPLES = "total_model_flops", "at_peak", "all_at_peak", "tokens", "samples"


class IntervalSum:
    """An interval in the making."""

    def __init__(self, first: int, found_later: Callable[[Hashable], Work | None]) -> None:
        self.first = first
        self._found_later = found_later
        self._unknown: list[tuple[Hashable, bool]] = []
        """Steps whose work was not known when they ended, and whether they are timed."""
        self.steps = self._timed = 0
        self._seconds = self._waited = self._called = 0.0
        self._sums: dict[str, float | int] = dict.fromkeys((FLOPS, AT_PEAK, ALL_AT_PEAK, TOKENS, SAMPLES), 0)
        """A figure that is not known of a step is taken out: it is not known of the interval either."""
        self._skipped = self._estimated = self._validations = 0
        self._validated = 0.0

    def add(self, step: Step, seconds: float | None, validated: float, *, on_host: bool) -> None:
        """Add a step; its seconds are None if they are not known, or slowed by counting."""
        self.steps += 1
        self._skipped += step.skipped
        work = step.work if step.calls else None
        if work is None and step.calls and len(self._unknown) < MOST_UNKNOWN:
            self._unknown.append((step.key, seconds is not None))
            work = NOTHING
        self._add(FLOPS, None if work is None else work.flops)
        if work is not None and work.estimated:
            self._estimated += 1
        if step.validations:
            self._validations += step.validations
            self._validated += validated
        if seconds is None:
            return
        self._timed += 1
        self._seconds += seconds
        self._called += step.forward
        if step.first_call is not None:
            self._waited += max(0.0, step.first_call - step.host_began - (validated if on_host else 0.0))
        self._add(AT_PEAK, None if work is None else work.at_peak)
        self._add(ALL_AT_PEAK, None if work is None else work.all_at_peak)
        if step.masks and step.tokens is not None:
            step.tokens += sum(int(mask) for mask in step.masks)
        self._add(TOKENS, step.tokens or None)
        self._add(SAMPLES, step.samples or None)

    def _add(self, name: str, value: float | None) -> None:
        if value is None:
            self._sums.pop(name, None)
        elif name in self._sums:
            self._sums[name] += value

    def interval(self) -> Interval:
        """The interval as a value; the work of a step may have become known since the step ended."""
        for key, timed in self._unknown:
            work = self._found_later(key)
            self._add(FLOPS, None if work is None else work.flops)
            if timed:
                self._add(AT_PEAK, None if work is None else work.at_peak)
                self._add(ALL_AT_PEAK, None if work is None else work.all_at_peak)
        sums = self._sums
        tokens, samples = (int(sums[name]) if self._timed and name in sums else None for name in (TOKENS, SAMPLES))
        return Interval(
            first=self.first,
            steps=self.steps,
            timed=self._timed,
            seconds=self._seconds,
            total_model_flops=sums.get(FLOPS),
            at_peak=sums.get(AT_PEAK) if self._timed else None,
            all_at_peak=sums.get(ALL_AT_PEAK) if self._timed else None,
            tokens=tokens,
            samples=samples,
            waited=self._waited,
            called=self._called,
            skipped=self._skipped,
            estimated=self._estimated,
            validations=self._validations,
            validation_seconds=self._validated,
            ended=time(),
        )
