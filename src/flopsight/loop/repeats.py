"""What a short call takes without our marks and with warm caches: a copy of the model makes it again, in a row.

Our marks, and Python's and the processor's caches after our work just before the call, cost it some 100 us. That is
nothing of a call that takes a second, and a tenth of one that takes a millisecond.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any

from torch import nn

from ..capture.hooks.patches import unpatched_if_alone
from ..capture.model.model_run import ModelRun
from ..capture.time.clock import Clock
from ..capture.time.module_marks import Timer
from .sharing_copy import copied_inputs, for_copies

WARM = 2
"""Repeats before those that are looked at."""
TIMES = 5


def plain_seconds(copy: nn.Module, run: ModelRun, clock: Clock, calls: Counter[str]) -> float | None:
    """The median time of a run; None where the copy raises, or does not call the modules that were counted."""
    module = copy.get_submodule(run.part)
    timer = Timer(copy, clock.now)
    given = [copied_inputs((run.args, dict(run.kwargs or {}))) for _ in range(1 + WARM + TIMES)]
    try:
        with for_copies():
            args, kwargs = given.pop()
            with timer.running():
                module(*args, **kwargs)
            if timer.entered() != calls:
                return None
            with unpatched_if_alone():
                return median([_seconds(module, args, kwargs, clock) for args, kwargs in given][WARM:])
    except Exception:
        return None


def _seconds(module: nn.Module, args: Any, kwargs: Any, clock: Clock) -> float:
    begin = clock.now()
    output = module(*args, **kwargs)  # named, so that it is freed after the clock has been read
    seconds = clock.now() - begin
    del output
    return seconds
