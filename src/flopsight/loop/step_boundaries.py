"""Finds which optimizer steps end a step of the loop; with several optimizers, the last one of each cycle."""

from __future__ import annotations

from enum import Enum
from typing import Any
from weakref import WeakSet, ref


class Boundary(Enum):
    """Where in a step of the loop an optimizer steps."""

    WITHIN = "within a step"
    ENDED = "the end of a step"
    MOVED = "the end of a step that was thought to be over already"


class OptimizerCycle:
    """Counts the steps of a loop by the steps of its optimizers.

    With one optimizer, each of its steps ends a step of the loop. With several, as in a GAN, a step of the loop ends
    with the last optimizer that steps before the first one steps again. That is known only after the first cycle;
    until then each new optimizer moves the end of step 0 after its own step. If the closing optimizer stops stepping,
    the next one that repeats closes the step. If it was deleted, the next one that steps does: some loops make a new
    optimizer every few steps.
    """

    def __init__(self) -> None:
        self.steps = 0
        """Steps that are over."""
        self._closer: ref[Any] | None = None
        self._since: list[ref[Any]] = []
        """Optimizers that stepped in the step under way; in the first cycle, all that stepped so far."""
        self.settled = False
        """True once the first cycle is over, so that ends do not move."""
        self._seen: WeakSet[Any] = WeakSet()
        self._fleeting = False
        """True once a closing optimizer was deleted. Kept, because a window may hold the next one when that is replaced."""

    def stepped(self, optimizer: Any) -> Boundary:
        """Note that an optimizer has stepped."""
        if self.settled and not self._since and self._closes(optimizer):
            self.steps += 1
            return Boundary.ENDED
        known = any(other() is optimizer for other in self._since)
        if self._replaces(optimizer):
            return self._end(optimizer)
        if not self.settled and not known:
            self._since.append(ref(optimizer))
            self._closer = ref(optimizer)
            moved, self.steps = self.steps > 0, 1
            return Boundary.MOVED if moved else Boundary.ENDED
        if not self.settled:
            self.settled, known = True, False
            self._since.clear()
        if self._closes(optimizer) or known:
            return self._end(optimizer)
        self._since.append(ref(optimizer))
        return Boundary.WITHIN

    def _end(self, closer: Any) -> Boundary:
        """End a step with its last optimizer."""
        self.settled = True
        self._since.clear()
        self._closer = ref(closer)
        self.steps += 1
        return Boundary.ENDED

    def _replaces(self, optimizer: Any) -> bool:
        """True if the optimizer is new, in a loop that replaces its optimizers."""
        self._fleeting |= self._closer is not None and self._closer() is None
        new = optimizer not in self._seen
        self._seen.add(optimizer)
        return new and self._fleeting

    def _closes(self, optimizer: Any) -> bool:
        return self._closer is not None and self._closer() is optimizer
