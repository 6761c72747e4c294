"""A call of a model, made by a copy: before the real call to warm up its caches, or after it to see what it takes without us.

After any pause a model that is bound by the host runs slower, until the host's caches are warm again. A count just
before a call is such a pause, so a copy makes the call a few times, and then the model runs at the pace of its loop.
Our marks, and cold caches after our work just before the call, cost a call some 100 us. That is nothing of a call that
takes a second, and a tenth of one that takes a millisecond; so a copy makes a short call again, in a row and unmarked.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from statistics import median
from typing import Any

import torch
from torch import nn

from ..capture.hooks.parallel import is_running
from ..capture.hooks.patches import eager, unpatched_if_alone
from ..capture.model.model_run import ModelRun
from ..capture.model.restore import kept_model
from ..capture.model.tensors import rebuilt, stored_bytes, tensors_in
from ..capture.time.clock import Clock
from ..capture.time.module_marks import Timer
from ..capture.twin.meta_copy import plain_tensors

LARGEST = 1 << 24
"""Bytes that may be copied. A call on more is not so short that its caches matter, and may need the memory."""
REHEARSALS = 3
"""Calls before the real one: after one, the pace is not yet quite that of the loop."""
LONG = 0.02
"""Seconds. A longer call is not bound by the host, so one rehearsal is enough."""
WARM = 2
"""Repeats before those that are looked at."""
REPEATS = 5


class CopiedCall:
    """One call of a model as a copy of it makes it; the copy shares the memory of the parameters and nothing else."""

    def __init__(self, model: nn.Module, part: str, inputs: Any) -> None:
        self._model = model
        self._call = model.get_submodule(part)
        self._inputs = inputs

    def rehearse(self, clock: Clock) -> None:
        """Make the call, each time from the same state. The copy stays alive: freeing it would cool the caches again."""
        with suppress(Exception), _for_copies():  # the real call raises it again, where the user sees it
            for _ in range(REHEARSALS):
                args, kwargs = self._copied_inputs()
                begin = clock.now()
                with kept_model(self._model):
                    self._call(*args, **kwargs)
                    clock.wait()
                if clock.now() - begin > LONG:
                    return

    def plain_seconds(self, clock: Clock, calls: Counter[str]) -> float | None:
        """The median time of the call; None if it raises, or does not call the modules that were counted."""
        timer = Timer(self._model, clock.now)
        given = [self._copied_inputs() for _ in range(1 + WARM + REPEATS)]
        with suppress(Exception), _for_copies():
            args, kwargs = given.pop()
            with timer.running():
                self._call(*args, **kwargs)
            if timer.entered() != calls:
                return None
            with unpatched_if_alone():
                return median([self._seconds(args, kwargs, clock) for args, kwargs in given][WARM:])
        return None

    def _seconds(self, args: Any, kwargs: Any, clock: Clock) -> float:
        begin = clock.now()
        output = self._call(*args, **kwargs)  # named, so that it is freed after the clock has been read
        seconds = clock.now() - begin
        del output
        return seconds

    def _copied_inputs(self) -> Any:
        """Inputs in containers and memory of their own."""
        return rebuilt(self._inputs, lambda leaf: _cloned(leaf) if isinstance(leaf, torch.Tensor) else leaf, anew=True)


def copied_call(run: ModelRun) -> CopiedCall | None:
    """The call of a run by a copy; None if there can be none, or it would be large or wait for other processes."""
    if is_running():
        return None
    inputs = run.args, dict(run.kwargs or {})
    with suppress(Exception):  # a model that cannot be copied
        held = [*run.model.buffers(), *plain_tensors(run.model)]
        if sum(map(stored_bytes, (*held, *tensors_in(inputs)))) <= LARGEST:
            memo: dict[int, Any] = {id(tensor): _cloned(tensor) for tensor in held}
            memo.update((id(p), nn.Parameter(p.detach(), p.requires_grad)) for p in run.model.parameters())
            return CopiedCall(copy.deepcopy(run.model, memo), run.part, inputs)
    return None


@contextmanager
def _for_copies() -> Iterator[None]:
    """Nothing is compiled for a copy, and autocast keeps no weights that it cast, or the model would use those."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with eager():
            yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _cloned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
