"""The user's own code: where it runs, and its traceback without our frames when it raises."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import FlopsightError
from ..script.frames import EVERY_FRAME, is_ours

EXIT_CODE = 3


class TargetRaised(Exception):
    """The user's code raised; the cause is what it raised."""

    def __init__(self, target: str, cause: BaseException) -> None:
        super().__init__(f"{target} raised {type(cause).__name__}.")
        self.cause = cause


@contextmanager
def users_code(target: str) -> Iterator[None]:
    """Tell what the user's code raises apart from what we raise."""
    try:
        yield
    except (FlopsightError, TargetRaised):
        raise
    except (Exception, SystemExit) as problem:
        raise TargetRaised(target, problem) from problem


def users_traceback(problem: BaseException) -> str:
    """The traceback of an exception and of what led to it, our frames left out where any other is left."""
    page = traceback.TracebackException.from_exception(problem)
    if not os.environ.get(EVERY_FRAME):
        _strip(page)
    return "".join(page.format())


def _strip(page: traceback.TracebackException) -> None:
    kept = [
        frame for frame in page.stack if not (is_ours(frame.filename) or frame.filename.startswith("<frozen importlib"))
    ]
    if kept:
        page.stack = traceback.StackSummary.from_list(kept)
    for linked in (page.__cause__, page.__context__):
        if linked is not None:
            _strip(linked)
