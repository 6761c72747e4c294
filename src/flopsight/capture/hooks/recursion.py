"""Room for our own frames: a model nests as deep under a watcher as it does without one."""

from __future__ import annotations

import sys

from .shared import Shared


class _Room(Shared[int]):
    """Python's recursion limit, raised while users need it; each says how many times the frames of a call it adds."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self._plain = self._set = 0

    def settle(self) -> None:
        """Set the limit that the users need; one that was changed by other code meanwhile is the new plain one."""
        if sys.getrecursionlimit() != self._set:
            self._plain = sys.getrecursionlimit()
        self._set = self._plain * (1 + sum(self.users))
        sys.setrecursionlimit(self._set)


_room = _Room()
deeper_recursion = _room.used_by
"""A context in which calls may nest so many times deeper in Python frames."""
