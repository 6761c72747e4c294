"""Python's garbage collector, out of the way where many objects are made and none of them is garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect nothing inside the block: a collection would look through all the new objects, again and again.

    Nor right after it: what was made counts as old.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if not gc.get_freeze_count():  # what the user froze stays frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
