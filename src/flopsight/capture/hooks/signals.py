"""Signal handlers: Python runs them between two lines of a model's forward, and what they do is not the model's work."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from .patches import Call, wrapped
from .shared import Shared

Aside = Callable[[], AbstractContextManager[None]]
SIGNALS = tuple(map(int, signal.valid_signals()))
_handler_of: Callable[[int], Any] = sys.modules["_signal"].getsignal
"""The handler of a signal as it is: the public function makes an enum of each, and all 64 are asked for at every count."""
_wrapped: set[int] = set()
"""Signals whose handler may be one of ours."""


class _Apart:
    """A user's handler that runs while every counter steps aside."""

    def __init__(self, handler: Call) -> None:
        self.handler = handler

    def __call__(self, *args: Any) -> Any:
        with counters_aside():
            return self.handler(*args)


def _wrap(handler: Any) -> Any:
    """A handler of Python's own, like the one for Ctrl-C, computes nothing and stays."""
    stays = not callable(handler) or handler is signal.default_int_handler or isinstance(handler, _Apart)
    return handler if stays else _Apart(handler)


def _unwrap(handler: Any) -> Any:
    return handler.handler if isinstance(handler, _Apart) else handler


def _install() -> Callable[[], None] | None:
    """Wrap the handlers that there are, and those that are set from now on; only the main thread may."""
    if threading.current_thread() is not threading.main_thread():
        return None
    for number in SIGNALS:
        _change(number, _wrap)
    stack = ExitStack()
    stack.enter_context(wrapped(signal, "signal", _setting))
    stack.enter_context(wrapped(signal, "getsignal", lambda get: lambda number: _unwrap(get(number))))

    def remove() -> None:
        stack.close()
        for number in sorted(_wrapped):
            _change(number, _unwrap)
        _wrapped.clear()

    return remove


def _change(number: int, change: Callable[[Any], Any]) -> None:
    handler = _handler_of(number)
    changed = change(handler)
    if changed is not handler:
        signal.signal(number, changed)
        _wrapped.add(number)


def _setting(set_handler: Call) -> Call:
    def set_apart(number: int, handler: Any) -> Any:
        _wrapped.add(number)
        return _unwrap(set_handler(number, _wrap(handler)))

    return set_apart


_watchers: Shared[Aside] = Shared(_install, lambda: threading.current_thread() is threading.main_thread())


@contextmanager
def counters_aside() -> Iterator[None]:
    """A context in which no counter that is on this thread counts."""
    with ExitStack() as stack:
        for aside in tuple(_watchers.users):
            stack.enter_context(aside())
        yield


handlers_apart = _watchers.used_by
"""A context in which a signal handler runs inside `aside()`: what it does is not seen."""
