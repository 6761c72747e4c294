"""A line for the user who waits: a run of one rank alone never ends where its model waits for the others."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .topology import is_dry, rank_and_size

PATIENCE = 30.0
"""Seconds after which a rank asks."""


def ask(line: str) -> None:
    """Print the question."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def asking_after(seconds: float = PATIENCE, say: Callable[[str], None] = ask) -> Iterator[None]:
    """If the block takes long, ask once whether every rank came here; a single process or a dry run is never asked."""
    rank, size = rank_and_size()
    if size == 1 or is_dry():
        yield
        return
    question = (
        f"flopsight: rank {rank} of {size} has been in the model for {seconds:g} s. Did every rank call profile() or "
        f"count()? A model that is spread over ranks runs only when all of them run it."
    )
    timer = threading.Timer(seconds, say, (question,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
