"""A rehearsal: a copy of the model makes the call that is about to be timed.

After any pause a model that is bound by the host runs slower, until the host's caches are warm again. A count just
before a call is such a pause. So a copy makes the call a few times, and then the model runs at the pace of its loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from ..capture.model.restore import kept_model
from ..capture.time.clock import Clock
from ..capture.twin.known_values import was_written
from .sharing_copy import copied_inputs, for_copies, sharing_copy

TIMES = 3
"""Calls of the copy: after one, the pace is not yet quite that of the loop."""
LONG = 0.02
"""Seconds. A longer call is not bound by the host, so one rehearsal is enough."""


class Rehearsal:
    """One call of a model, made by a copy."""

    def __init__(self, model: nn.Module, path: str, args: Any, kwargs: Any) -> None:
        self._path, self._inputs = path, (args, kwargs)
        self._copy: nn.Module | None = None
        with suppress(Exception):  # a model that cannot be copied is not rehearsed
            self._copy = sharing_copy(model, self._inputs)

    def run(self, twin_parameters: Iterable[torch.Tensor], clock: Clock) -> None:
        """Make the call, each time from the same state, unless it writes into the parameters, which are shared.

        The run of the twin has shown whether it does. The copy stays alive: freeing it would cool the caches again.
        """
        if self._copy is None or any(map(was_written, twin_parameters)):
            return
        call = self._copy.get_submodule(self._path)
        with suppress(Exception), for_copies():  # the real call raises it again, where the user sees it
            for _ in range(TIMES):
                args, kwargs = copied_inputs(self._inputs)
                begin = clock.now()
                with kept_model(self._copy):
                    call(*args, **kwargs)
                    clock.wait()
                if clock.now() - begin > LONG:
                    return
