"""Which optimizer step ends a step of the loop? With several optimizers, the one that closes their cycle."""

from __future__ import annotations

from enum import Enum
from typing import Any
from weakref import WeakSet, ref


class Boundary(Enum):
    """What an optimizer's step is to the loop."""

    WITHIN = "within a step"
    ENDED = "the end of a step"
    MOVED = "the end of a step that was thought to be over already"


class OptimizerCycle:
    """Counts the steps of a loop by the steps of its optimizers.

    A loop with one optimizer steps when it steps. With several, as in a GAN, a step ends with the last of those that
    step before the first of them steps again. That is known when the first cycle is over; until then every optimizer
    that is new moves the end of step 0 behind itself. An optimizer that stops stepping hands over to the next that
    repeats, and one that is gone to the next at once: some loops make a new optimizer for every few steps.
    """

    def __init__(self) -> None:
        self.steps = 0
        """Steps that are over."""
        self._closer: ref[Any] | None = None
        self._since: list[ref[Any]] = []
        """Those that have stepped in the step under way; in the first cycle, all that have stepped."""
        self._first = True
        self._seen: WeakSet[Any] = WeakSet()
        self._fleeting = False
        """Whether an optimizer that ended steps has gone; the next may still be held by a window when it is replaced."""

    def stepped(self, optimizer: Any) -> Boundary:
        """Note that an optimizer has stepped."""
        if not self._first and not self._since and self._closes(optimizer):
            self.steps += 1
            return Boundary.ENDED
        known = any(other() is optimizer for other in self._since)
        if self._replaces(optimizer):
            self._first = False
            self._since.clear()
            self._closer = ref(optimizer)
            self.steps += 1
            return Boundary.ENDED
        if self._first and not known:
            self._since.append(ref(optimizer))
            self._closer = ref(optimizer)
            moved, self.steps = self.steps > 0, 1
            return Boundary.MOVED if moved else Boundary.ENDED
        if self._first:
            self._first = False
            self._since.clear()
            known = False
        if self._closes(optimizer) or known:
            self._closer = ref(optimizer)
            self._since.clear()
            self.steps += 1
            return Boundary.ENDED
        self._since.append(ref(optimizer))
        return Boundary.WITHIN

    def _replaces(self, optimizer: Any) -> bool:
        """Whether the one that steps is new, in a loop whose optimizers come and go."""
        self._fleeting |= self._closer is not None and self._closer() is None
        new = optimizer not in self._seen
        self._seen.add(optimizer)
        return new and self._fleeting

    def _closes(self, optimizer: Any) -> bool:
        return self._closer is not None and self._closer() is optimizer
