"""When forward, backward and the optimizer begin and end in somebody else's loop: a few light marks a step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from .clock import Clock, Mark
from .metas import raw, tensors_in
from .ownership import optimizer_steps
from .scope import Call, Sites, module_calls, wrapped

Span = tuple[str, Mark, Mark]


class PhaseMarks:
    """The spans of one step: every outermost call of the model, every backward, every optimizer step."""

    def __init__(self, model: nn.Module, clock: Clock) -> None:
        self.spans: list[Span] = []
        self.signature: list[Any] = []
        """The shapes that the model was called with: steps with equal ones do equal work."""
        self.first_inputs: tuple[Any, Any] | None = None
        self._sites = Sites(model)
        self._clock = clock
        self._thread = 0
        self._busy = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Mark what this thread does inside the block."""
        self._thread = threading.get_ident()
        with ExitStack() as stack:
            stack.enter_context(module_calls(self._watch))
            stack.enter_context(optimizer_steps(self._begin_update, self._end_update))
            stack.enter_context(wrapped(torch.autograd, "backward", partial(self._timed, "backward")))
            stack.enter_context(wrapped(torch.autograd, "grad", partial(self._timed, "backward")))
            yield

    def seconds(self, phase: str) -> float:
        """Time in a phase, all its spans together."""
        return sum(self._clock.seconds(begin, end) for name, begin, end in self.spans if name == phase)

    @property
    def bounds(self) -> tuple[Mark, Mark] | None:
        """From the first mark to the last."""
        return (self.spans[0][1], self.spans[-1][2]) if self.spans else None

    def _timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread or self._busy:
                return function(*args, **kwargs)  # a backward inside the model's forward or another backward
            self._busy = True
            begin = self._clock.mark()
            try:
                return function(*args, **kwargs)
            finally:
                self.spans.append((phase, begin, self._clock.mark()))
                self._busy = False

        return timed

    def _watch(self, plain: Call) -> Call:
        forward = self._timed("forward", plain)

        def watched(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._busy or self._sites.row(module) is None or threading.get_ident() != self._thread:
                return plain(module, *args, **kwargs)
            self.signature.append(tuple(raw(list(tensors_in((args, kwargs))))))
            if self.first_inputs is None:
                self.first_inputs = (args, kwargs)
            return forward(module, *args, **kwargs)

        return watched

    def _begin_update(self, _optimizer: torch.optim.Optimizer) -> None:
        self._update = self._clock.mark()

    def _end_update(self) -> None:
        self.spans.append(("optimizer", self._update, self._clock.mark()))
