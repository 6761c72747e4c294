"""What several users need in torch at the same time: the first user installs it, the last one removes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Generic, TypeVar

User = TypeVar("User")
Remove = Callable[[], None]


class Shared(Generic[User]):
    """One installation for all its users, who come and go in any order and on any thread."""

    def __init__(self, install: Callable[[], Remove | None], may_remove: Callable[[], bool] = lambda: True) -> None:
        """`install` returns the function that undoes it, or None while it cannot be done: `settle` tries again."""
        self.users: list[User] = []
        self.lock = RLock()
        self._install = install
        self._may_remove = may_remove
        self._remove: Remove | None = None

    @contextmanager
    def used_by(self, user: User) -> Iterator[None]:
        """Add a user for the time of the block."""
        with self.lock:
            self.users.append(user)
            try:
                self.settle()
            except BaseException:
                self.users.remove(user)
                raise
        try:
            yield
        finally:
            with self.lock:
                self.users.remove(user)
                self.settle()

    def settle(self) -> None:
        """Install what users need and is not there, remove what no user needs."""
        with self.lock:
            if self.users and self._remove is None:
                self._remove = self._install()
            elif not self.users and self._remove is not None and self._may_remove():
                remove, self._remove = self._remove, None
                remove()
