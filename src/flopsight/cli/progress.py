"""One line on a terminal that says what is being done and for how long; nothing where the output is no terminal."""

from __future__ import annotations

import sys
import threading
import time

EVERY = 1.0
"""Seconds between two updates of the elapsed time."""


class Progress:
    """The line that replaces itself; used as `with Progress() as say: say("counting")`."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._text, self._begun = "", time.monotonic()
        self._stop = threading.Event()
        self._ticking: threading.Thread | None = None

    def __enter__(self) -> Progress:
        """Begin to count the seconds."""
        return self

    def __call__(self, text: str, *, timed: bool = False) -> None:
        """Show what is done now; during timed runs no thread of ours may wake up."""
        self._end_ticking()
        self._text = text
        self._draw()
        if self._shown and not timed:
            self._stop.clear()
            self._ticking = threading.Thread(target=self._tick, daemon=True)
            self._ticking.start()

    def __exit__(self, *_: object) -> None:
        """Wipe the line."""
        self._end_ticking()
        if self._shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

    def _tick(self) -> None:
        while not self._stop.wait(EVERY):
            self._draw()

    def _draw(self) -> None:
        if self._shown:
            elapsed = time.monotonic() - self._begun
            print(f"\r\x1b[2K{elapsed:4.0f} s  {self._text}", end="", file=sys.stderr, flush=True)

    def _end_ticking(self) -> None:
        self._stop.set()
        if self._ticking is not None:
            self._ticking.join()
            self._ticking = None
