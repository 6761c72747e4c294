"""Removes the profiler's own frames from a traceback."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

OURS = Path(__file__).parent.parent
EVERY_FRAME = "FLOPSIGHT_TRACEBACK"
"""The environment variable that keeps our frames in, for bug reports."""


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


def _trimmed(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        if not is_ours(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        else:  # Python takes its own frames out of an import's traceback, unless ours stand between them
            while kept and kept[-1].tb_frame.f_code.co_filename.startswith("<frozen importlib"):
                kept.pop()
        traceback = traceback.tb_next
    below: TracebackType | None = None
    for one in reversed(kept):
        below = TracebackType(below, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return below
