"""Drops what a model prints while we call a copy of it, or call it again: the user's own call prints it once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from threading import get_ident
from typing import Any


class _Muted:
    """A stream that drops what one thread writes; the other threads write to the stream behind it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._thread = get_ident()

    def write(self, text: str) -> Any:
        return len(text) if get_ident() == self._thread else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def quiet() -> Iterator[None]:
    """Drop what this thread prints. Stderr stays: a warning that torch gives once must not be lost."""
    if sys.stdout is None:  # a process without a terminal
        yield
        return
    with redirect_stdout(_Muted(sys.stdout)):
        yield
