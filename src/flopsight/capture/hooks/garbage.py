"""Python's garbage collection while a model is counted: our notes are many small objects, and none of them is garbage."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial

from .shared import Shared

RARER = 100
"""How many times more objects are made between two collections."""


def _make_rarer() -> Callable[[], None]:
    plain = gc.get_threshold()
    rarer = (plain[0] * RARER, *plain[1:])
    gc.set_threshold(*rarer)

    def put_back() -> None:
        if gc.get_threshold() == rarer:  # else the model has set its own
            gc.set_threshold(*plain)

    return put_back


rarer_collections = partial(Shared[None](_make_rarer).used_by, None)
"""A context in which garbage is collected less often; what the model leaves in cycles is still collected."""
