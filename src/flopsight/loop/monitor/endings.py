"""Ends that a `with` does not see: SIGTERM, which ends a process at once, and forks, in which no loop is watched."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet


class Ending:
    """Calls `flush` before SIGTERM ends the process, and `abandon` in a process that is forked meanwhile.

    A handler of the script's own stays, and does what it does; the signal then ends the process as it would have.
    """

    def __init__(self, flush: Callable[[], None], abandon: Callable[[], None]) -> None:
        self._flush = flush
        self.abandon = abandon
        self._installed = False

    def __enter__(self) -> None:
        _watched.add(self)
        _register()
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminate)
            self._installed = True

    def __exit__(self, *_details: object) -> None:
        _watched.discard(self)
        if self._installed and signal.getsignal(signal.SIGTERM) == self._terminate:
            with suppress(ValueError):  # not the main thread
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._installed = False

    def _terminate(self, number: int, _frame: Any) -> None:
        with suppress(Exception):
            self._flush()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


_watched: WeakSet[Ending] = WeakSet()
_registered = False


def _register() -> None:
    """Tell Python once: what is called after a fork cannot be taken back."""
    global _registered  # noqa: PLW0603
    if not _registered and hasattr(os, "register_at_fork"):  # Windows has no fork
        _registered = True
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    for ending in list(_watched):
        with suppress(Exception):
            ending.abandon()
    _watched.clear()
