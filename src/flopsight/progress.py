"""What is being done and for how long: a bar in a terminal or a notebook, a line a phase if it is asked for."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape
from importlib import import_module
from typing import Any, Protocol, TextIO, TypeVar

EVERY = 0.5
"""Seconds between two updates of the elapsed time."""
PLACE = re.compile(r"(\d+) of (\d+)")
"""A text with "3 of 10" in it moves the bar: two of ten are done."""
RUN = re.compile(r", run \d+ of \d+")
"""Runs of one phase, which share a line."""
COUNTING = "counting"
"""The only phase of a profile in which no clock of ours runs, so that a thread may wake up."""


Teller = TypeVar("Teller", bound=Callable[..., None])
Told = Callable[[int, int, float | None], None]
"""Called with the points done, all points, and the seconds left."""


class Display(Protocol):
    """Where progress is shown."""

    def draw(self, text: str, seconds: float) -> None:
        """Show a text and the elapsed time."""

    def close(self) -> None:
        """Take away what is shown."""


def begin_line(stream: TextIO) -> None:
    """Go to the start of a line of our own, in case another program's text stands on this one.

    As many spaces as a terminal has columns end on the next line unless they began at the start of one; elsewhere
    nothing tells, and an empty line is left.
    """
    with suppress(OSError, ValueError):
        stream.write(f"{' ' * shutil.get_terminal_size().columns}\r" if stream.isatty() else "\n")


class Progress:
    """Shows what is done now: `with Progress() as say: say("counting")`.

    A terminal and a notebook get a bar. Anything else gets nothing, or a line for each phase if that is `asked` for.
    """

    def __init__(
        self, *, asked: bool = False, display: Display | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._display = display or _found_display(asked=asked)
        self._clock = clock
        self._begun = self._drawn = clock()
        self._text = ""
        self._stop = threading.Event()
        self._ticking: threading.Thread | None = None

    def __enter__(self) -> Progress:
        """Begin to count the seconds."""
        return self

    def __call__(self, text: str, *, timed: bool = False) -> None:
        """Show what is done now.

        During timed runs no thread of ours may wake up, and the bar moves seldom: drawing it cools the caches.
        """
        self._end_ticking()
        same = _phase(text) == _phase(self._text)
        self._text = text
        if not (timed and same and self._clock() - self._drawn < EVERY):
            self._draw()
        if self._display is not None and not timed:
            self._stop.clear()
            self._ticking = threading.Thread(target=self._tick, daemon=True)
            self._ticking.start()

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""
        self._end_ticking()
        if self._display is not None:
            self._display.close()

    def _tick(self) -> None:
        while not self._stop.wait(EVERY):
            self._draw()

    def _draw(self) -> None:
        self._drawn = self._clock()
        if self._display is not None:
            self._display.draw(self._text, self._drawn - self._begun)

    def _end_ticking(self) -> None:
        self._stop.set()
        if self._ticking is not None:
            self._ticking.join()
            self._ticking = None


@contextmanager
def told(progress: Teller | bool | None, show: Callable[[Progress], Teller]) -> Iterator[Teller | None]:
    """What gets the progress: the user's function, a bar or lines if progress is True, else None."""
    if progress is not True:
        yield progress or None
        return
    with Progress(asked=True) as say:
        yield show(say)


def by_phases(say: Progress) -> Callable[[str], None]:
    """Shows each phase of a profile."""
    return lambda doing: say(doing, timed=doing != COUNTING)


def by_points(say: Progress, *, timed: bool) -> Told:
    """Shows a sweep's points in a bar."""

    def told(done: int, points: int, left: float | None) -> None:
        say(f"point {done + 1} of {points}{f', {left:.0f} s left' if left is not None else ''}", timed=timed)

    return told


def _found_display(*, asked: bool) -> Display | None:
    if _in_notebook():
        return Cell()
    if sys.stderr.isatty():
        return Bar()
    return Lines() if asked else None


def _in_notebook() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


class Bar:
    """A bar on a terminal, which goes away at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (
            TextColumn("{task.fields[elapsed]}"),
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
        )
        # The user's own prints go where they always go: neither stream is replaced, and no thread refreshes the bar.
        self._bar = Progress(
            *columns,
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=None, elapsed="")
        self._bar.start()

    def draw(self, text: str, seconds: float) -> None:
        """Move the bar; without a number of steps it swings."""
        place = PLACE.search(text)
        done, total = (int(place[1]) - 1, int(place[2])) if place else (0, None)
        if total is None:
            self._bar.reset(self._task, total=None, start=False)
        self._bar.update(
            self._task, description=text, completed=done, total=total, elapsed=_elapsed(seconds), refresh=True
        )

    def close(self) -> None:
        """Wipe the bar."""
        self._bar.stop()


class Cell:
    """A bar below the notebook's cell, which goes away at the end."""

    def __init__(self) -> None:
        self._shown: Any = None

    def draw(self, text: str, seconds: float) -> None:
        """Show the bar, or move it."""
        place = PLACE.search(text)
        where = f' value="{int(place[1]) - 1}" max="{place[2]}"' if place else ""
        self._show(f"<progress{where}></progress> {_elapsed(seconds)} {escape(text)}")

    def close(self) -> None:
        """Empty the output."""
        if self._shown is not None:
            self._show("")

    def _show(self, markup: str) -> None:
        notebook = import_module("IPython.display")
        if self._shown is None:
            self._shown = notebook.display(notebook.HTML(markup), display_id=True)
        else:
            self._shown.update(notebook.HTML(markup))


class Lines:
    """A line for each phase on stderr, for logs."""

    def __init__(self) -> None:
        self._last = ""

    def draw(self, text: str, seconds: float) -> None:
        """Write a line when a phase begins."""
        phase = _phase(text)
        if phase != self._last:
            self._last = phase
            print(f"{_elapsed(seconds)}  {phase}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the lines."""


def _phase(text: str) -> str:
    return RUN.sub("", text)


def _elapsed(seconds: float) -> str:
    return f"{seconds:4.0f} s"
