"""Times of all steps of a run, in memory that does not grow: exact for the first steps, then in bins of one percent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import floor, log

WIDTH = log(1.01)
MOST_EXACT = 500
SHORTEST = 1e-9


class StepTimes:
    """Quantiles of step times."""

    def __init__(self) -> None:
        self._exact: list[float] = []
        """Those that are in no bin yet."""
        self._bins: Counter[int] = Counter()
        """Empty while all times are exact."""

    def add(self, seconds: Iterable[float]) -> None:
        """Note the times of some steps."""
        self._exact.extend(seconds)
        if len(self._exact) > MOST_EXACT:
            self._fill_bins()

    def _fill_bins(self) -> None:
        self._bins.update([floor(log(one or SHORTEST) / WIDTH) for one in self._exact])
        self._exact.clear()

    def quantiles(self, *shares: float) -> list[float] | None:
        """The times that these shares of the steps do not exceed; None without steps."""
        if self._bins:
            self._fill_bins()
        count = self._bins.total() or len(self._exact)
        if not count:
            return None
        ranks = [min(count - 1, int(share * count)) for share in shares]
        if not self._bins:
            times = sorted(self._exact)
            return [times[rank] for rank in ranks]
        found: list[float] = []
        passed = 0
        for place in sorted(self._bins):
            passed += self._bins[place]
            while len(found) < len(ranks) and ranks[len(found)] < passed:
                found.append(1.005 * 1.01**place)
        return found
