"""Times: repeated measurements, and the wall times of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

TIME_BUDGET = 60.0
"""Seconds of timed runs after which no further one begins, by default."""
One = TypeVar("One")


def middle(ones: Sequence[One], time: Callable[[One], float]) -> One:
    """One whole run, the one with the median time: its rows add up, which medians by row would not."""
    return sorted(ones, key=time)[(len(ones) - 1) // 2]


@dataclass(frozen=True)
class Stat:
    """Repeated measurements of one time, in seconds."""

    samples: tuple[float, ...]
    """One measurement each."""

    @property
    def median(self) -> float:
        """The middle sample."""
        return median(self.samples)

    @property
    def mean(self) -> float:
        """All samples over their number."""
        return self.total / len(self.samples)

    @property
    def spread(self) -> float:
        """Distance between the quartiles, relative to the median; 0 for a single sample."""
        ordered = sorted(self.samples)
        middle = self.median
        if len(ordered) < 2 or not middle:
            return 0.0
        return (ordered[(3 * len(ordered) - 1) // 4] - ordered[len(ordered) // 4]) / middle

    @property
    def total(self) -> float:
        """All samples together."""
        return sum(self.samples)

    def __float__(self) -> float:
        return self.median


@dataclass(frozen=True)
class Timing:
    """Wall times of the plain run, nothing attached; None for what did not run."""

    forward: Stat | None = None
    """One forward."""
    backward: Stat | None = None
    """One backward, with what it recomputes."""
    optimizer: Stat | None = None
    """One step of the optimizer."""
    step: Stat | None = None
    """Forward, loss, backward and optimizer together."""
    iteration: Stat | None = None
    """From one step of a loop to the next, with everything that the loop does."""
    data_wait: Stat | None = None
    """What a loop waits for its batch."""
    distortion: float | None = None
    """Timed wall over plain wall: how much the per-module marks slowed the run."""
    busy: float | None = None
    """Seconds of kernels in one forward; those that run side by side count each."""
    backward_busy: float | None = None
    """The same for one backward."""
    optimizer_busy: float | None = None
    """The same for one step of the optimizer."""
    idle: float | None = None
    """Seconds of one forward in which no kernel ran: the device waited for the host."""

    @property
    def whole(self) -> Stat | None:
        """The longest stretch that was timed as one piece: an iteration, else a step, else a forward."""
        return self.iteration or self.step or self.forward


NOT_TIMED = Timing()
