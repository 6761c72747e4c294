"""A rehearsal: a copy of the model makes the call that is about to be timed.

After any pause a model that is bound by the host runs slower, until the host's caches are warm again. A count just
before a call is such a pause. So a copy makes the call a few times, and then the model runs at the pace of its loop.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn

from ..capture.hooks.patches import eager
from ..capture.model.restore import kept_model
from ..capture.model.tensors import stored_bytes, tensors_in, with_tensors
from ..capture.time.clock import Clock
from ..capture.twin.known_values import was_written
from ..capture.twin.meta_copy import plain_tensors

TIMES = 3
"""Calls of the copy: after one, the pace is not yet quite that of the loop."""
LONG = 0.02
"""Seconds. A longer call is not bound by the host, so one rehearsal is enough."""
LARGEST = 1 << 24
"""Bytes that may be copied. A larger model is not bound by the host, and may need its memory."""


class Rehearsal:
    """One call of a model, made by a copy that shares the memory of the model's parameters and nothing else."""

    def __init__(self, model: nn.Module, path: str, args: Any, kwargs: Any) -> None:
        self._path, self._args, self._kwargs = path, args, kwargs
        self._copy: nn.Module | None = None
        with suppress(Exception):  # a model that cannot be copied is not rehearsed
            self._copy = _copy(model, tensors_in((args, kwargs)))

    def run(self, twin_parameters: Iterable[torch.Tensor], clock: Clock) -> None:
        """Make the call, each time from the same state, unless it writes into the parameters, which are shared.

        The run of the twin has shown whether it does. The copy stays alive: freeing it would cool the caches again.
        """
        if self._copy is None or any(map(was_written, twin_parameters)):
            return
        call = self._copy.get_submodule(self._path)
        # An exception is raised again by the real call, where the user sees it; and nothing is compiled for a copy.
        with suppress(Exception), eager(), _without_cast_weights():
            for _ in range(TIMES):
                args, kwargs = with_tensors(self._args, _cloned), with_tensors(self._kwargs, _cloned)
                begin = clock.now()
                with kept_model(self._copy):
                    call(*args, **kwargs)
                    clock.wait()
                if clock.now() - begin > LONG:
                    return


@contextmanager
def _without_cast_weights() -> Iterator[None]:
    """Switch off autocast's cache of cast weights, or the real call would use those of the copy."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _copy(model: nn.Module, inputs: list[torch.Tensor]) -> nn.Module | None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return None  # a collective would wait for the other processes
    held = [*model.buffers(), *plain_tensors(model)]
    if sum(map(stored_bytes, (*held, *inputs))) > LARGEST:
        return None
    memo: dict[int, Any] = {id(tensor): _cloned(tensor) for tensor in held}
    memo.update((id(p), nn.Parameter(p.detach(), p.requires_grad)) for p in model.parameters())
    return copy.deepcopy(model, memo)


def _cloned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
