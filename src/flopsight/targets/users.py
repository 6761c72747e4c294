"""The user's own code: where it runs, and its traceback without our frames when it raises."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from ..errors import FlopsightError

EXIT_CODE = 3
OURS = Path(__file__).parent.parent
EVERY_FRAME = "FLOPSIGHT_TRACEBACK"
"""The environment variable that keeps our frames in, for bug reports."""
INSTALLED = {"site-packages", "dist-packages"}
"""Folders of installed libraries."""


class TargetRaised(Exception):
    """The user's code raised; the cause is what it raised."""

    def __init__(self, target: str, cause: BaseException, called_with: str = "") -> None:
        said = " ".join(str(cause).split())
        given = f" It was called with {called_with}." if called_with else ""
        stop = "" if said.endswith((".", "!", "?")) else "."
        super().__init__(f"{target} raised {type(cause).__name__}{f': {said}' if said else ''}{stop}{given}")
        self.cause = cause


@contextmanager
def users_code(target: str, called_with: str = "") -> Iterator[None]:
    """Tell what the user's code raises apart from what we raise; with the shapes of a call, if it is one."""
    try:
        yield
    except (FlopsightError, TargetRaised):
        raise
    except (Exception, SystemExit) as problem:
        raise TargetRaised(target, problem, called_with) from problem


def users_traceback(problem: BaseException) -> str:
    """The traceback of an exception and of what led to it, without our frames."""
    page = traceback.TracebackException.from_exception(problem)
    if not os.environ.get(EVERY_FRAME):
        _strip(page)
    return "".join(page.format())


def _strip(page: traceback.TracebackException) -> None:
    """Leave out our frames, and those inside installed libraries if a frame of the user's is left."""
    others = [frame for frame in page.stack if not (is_ours(frame.filename) or frame.filename.startswith("<frozen"))]
    kept = [frame for frame in others if INSTALLED.isdisjoint(Path(frame.filename).parts)] or others[-1:]
    # A call that fails before it enters the user's code, as with a missing argument, has no frame to show.
    page.stack = traceback.StackSummary.from_list(kept) if kept else None  # type: ignore[assignment]
    for linked in (page.__cause__, page.__context__):
        if linked is not None:
            _strip(linked)


def without_ours(problem: BaseException) -> None:
    """Remove our frames from an exception's traceback, and from the exceptions that it was raised from."""
    if os.environ.get(EVERY_FRAME):
        return
    todo, seen = [problem], set[int]()
    while todo:
        one = todo.pop()
        seen.add(id(one))
        one.__traceback__ = _trimmed(one.__traceback__)
        linked = [one.__cause__, one.__context__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ())]
        todo += [other for other in linked if other is not None and id(other) not in seen]


def is_ours(filename: str) -> bool:
    """True for the profiler's files, except the embedded models, which are shown like a user's."""
    path = Path(filename)
    return path.is_relative_to(OURS) and not path.is_relative_to(OURS / "zoo")


def _trimmed(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while trace is not None:
        if not is_ours(trace.tb_frame.f_code.co_filename):
            kept.append(trace)
        else:  # Python takes its own frames out of an import's traceback, unless ours stand between them
            while kept and kept[-1].tb_frame.f_code.co_filename.startswith("<frozen importlib"):
                kept.pop()
        trace = trace.tb_next
    below: TracebackType | None = None
    for one in reversed(kept):
        below = TracebackType(below, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return below
