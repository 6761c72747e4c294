"""Figures go to each sink on a thread of its own: a sink that fails, hangs or is slow never touches the training."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from time import monotonic

from ...files.printable import one_line
from ...results.run import Interval

MOST_WAITING = 1000
"""Intervals that wait for a slow sink; later ones are dropped until it has caught up."""
PERIOD = 0.2
"""Seconds after which a sink's thread looks for new intervals."""
STUCK = 2.0
"""Seconds without progress after which the end of a run waits for a sink no longer."""
LONGEST = 30.0
"""Seconds that the end of a run waits for a sink that makes progress."""


class Figures(dict[str, float]):
    """The figures of an interval by name."""

    line: Callable[[], str] = str
    """Makes the line that a file gets of it, on that file's thread."""


Deliver = Callable[[Interval, Figures], None]


class Delivery:
    """One sink, its thread and its queue; its first error is said once, and it goes on."""

    takes_lines = False
    """True for a file of JSON lines."""

    def __init__(
        self, name: str, deliver: Deliver, close: Callable[[], None] | None = None, *, latest_only: bool = False
    ) -> None:
        """`latest_only` is for a sink that shows the present: of the intervals that wait for it, it gets the last."""
        self.name = name
        self.dropped = 0
        self._deliver = deliver
        self._close = close
        self._context = copy_context()
        # a deque and no queue: waking a thread at every interval would make the loop wait for Python's lock
        self._waiting: deque[tuple[Interval, Figures]] = deque(maxlen=1 if latest_only else None)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._failed = False
        self._done = 0

    def put(self, interval: Interval, figures: Figures) -> None:
        """Hand over, without waiting."""
        if self._thread is None:
            run = partial(self._context.run, self._run)  # trackers keep their current run in the context
            self._thread = threading.Thread(target=run, name=f"flopsight to {self.name}", daemon=True)
            self._thread.start()
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append((interval, figures))
        else:
            self.dropped += 1

    def finish(self) -> None:
        """Wait until everything is delivered, as long as the sink gets on with it."""
        if self._thread is None:
            self._end()
            return
        self._over.set()
        begin = moved = monotonic()
        seen = self._done
        while self._thread.is_alive() and monotonic() - moved < STUCK and monotonic() - begin < LONGEST:
            self._thread.join(0.05)
            if self._done != seen:
                seen, moved = self._done, monotonic()
        if self._thread.is_alive():
            say(f"{self.name} did not take the last figures in time, so they are lost.")
        elif self.dropped:
            say(f"{self.name} was too slow: {self.dropped} intervals were not handed to it.")

    def _run(self) -> None:
        over = False
        while not over:
            over = self._over.wait(PERIOD)
            while self._waiting:
                try:
                    self._deliver(*self._waiting.popleft())
                except BaseException as problem:  # whatever a tracker raises stays here
                    self._report(problem)
                self._done += 1
        self._end()

    def _end(self) -> None:
        try:
            if self._close is not None:
                self._close()
        except BaseException as problem:
            self._report(problem)

    def _report(self, problem: BaseException) -> None:
        if not self._failed:
            self._failed = True
            say(f"{self.name} failed: {type(problem).__name__}: {problem}. Training goes on.")


def say(sentence: str) -> None:
    """Print one line to stderr."""
    with suppress(OSError, ValueError, AttributeError):
        print(f"flopsight: {one_line(sentence)}", file=sys.stderr, flush=True)
