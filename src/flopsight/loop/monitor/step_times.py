"""Times of all steps of a run, in memory that does not grow: exact for the first steps, then in bins of one percent."""

from __future__ import annotations

from bisect import insort
from math import floor, log

WIDTH = log(1.01)
MOST_EXACT = 500


class StepTimes:
    """Quantiles of step times."""

    def __init__(self) -> None:
        self._count = 0
        self._exact: list[float] = []
        self._bins: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """Note a step's time."""
        self._count += 1
        if len(self._exact) < MOST_EXACT:
            insort(self._exact, seconds)
        place = floor(log(max(seconds, 1e-9)) / WIDTH)
        self._bins[place] = self._bins.get(place, 0) + 1

    def quantile(self, share: float) -> float | None:
        """The time that a share of the steps does not exceed; None without steps."""
        if not self._count:
            return None
        rank = min(self._count - 1, int(share * self._count))
        if self._count <= len(self._exact):
            return self._exact[rank]
        for place in sorted(self._bins):
            rank -= self._bins[place]
            if rank < 0:
                return 1.005 * 1.01**place
        raise AssertionError("every step is in a bin")
