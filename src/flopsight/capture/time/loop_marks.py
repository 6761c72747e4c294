"""Marks when forward, backward and optimizer begin and end in the user's own loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from ..hooks.optimizer_steps import optimizer_steps
from ..hooks.patches import Call, module_calls, unpatched, wrapped
from ..model.model_run import ModelRun, batch_size_of, tokens_of
from ..model.sites import Site, Sites, sites_of
from ..model.tensors import raw
from .clock import Clock, Mark

Span = tuple[str, Mark, Mark]


@dataclass(frozen=True)
class ModelCall:
    """One outermost call of a model; steps with equal calls do equal work."""

    site: Site
    shapes: tuple[Any, ...]
    samples: int | None
    tokens: int | None
    passive: bool
    """In eval mode and without gradients, as a validation calls its model."""
    compiled: bool


class PhaseMarks:
    """The spans of one step: every outermost call of the model, every backward, every optimizer step."""

    def __init__(
        self,
        model: nn.Module | Sites,
        clock: Clock,
        optimizers: list[torch.optim.Optimizer] | None = None,
        on_failure: Callable[[], None] | None = None,
    ) -> None:
        """Optimizers that step are added to `optimizers`. `on_failure` is called when a marked call raises."""
        self.spans: list[Span] = []
        self.calls: list[ModelCall] = []
        self.optimizers = [] if optimizers is None else optimizers
        self._sites = sites_of(model)
        self._clock = clock
        self._on_failure = on_failure
        self._thread = 0
        self._busy = False
        self._updates = 0
        self._updating: Mark = None

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

    @property
    def passive(self) -> int:
        """The number of calls that look like a validation."""
        return sum(call.passive for call in self.calls)

    def _timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread or self._busy:
                return function(*args, **kwargs)  # a backward inside the model's forward or another backward
            self._busy = True
            begin = self._clock.mark()
            try:
                return function(*args, **kwargs)
            except BaseException:
                if self._on_failure is not None:
                    self._on_failure()
                raise
            finally:
                self.spans.append((phase, begin, self._clock.mark()))
                self._busy = False

        return timed

    def _watch(self, plain: Call) -> Call:
        forward = self._timed("forward", plain)
        sites, outside = self._sites, self._sites.outside

        def watched(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._busy or threading.get_ident() != self._thread:
                return plain(module, *args, **kwargs)
            run = ModelRun(module, args, kwargs)
            site = sites.find(run.plain_model, outside)
            if site is outside:
                return plain(module, *args, **kwargs)
            self.calls.append(model_call(site, run))
            with unpatched() if run.compiled else nullcontext():
                return forward(module, *args, **kwargs)

        return watched

    def _begin_update(self, optimizer: torch.optim.Optimizer) -> None:
        if not any(known is optimizer for known in self.optimizers):
            self.optimizers.append(optimizer)
        self._updates += 1
        if self._updates == 1:  # an optimizer may hold another one
            self._updating = self._clock.mark()

    def _end_update(self) -> None:
        self._updates -= 1
        if not self._updates:
            self.spans.append(("optimizer", self._updating, self._clock.mark()))


def model_call(site: Site, run: ModelRun) -> ModelCall:
    """Describe a call of a model."""
    return ModelCall(
        site=site,
        shapes=tuple(map(raw, run.tensors)),
        samples=batch_size_of(run),
        tokens=tokens_of(run),
        passive=not getattr(run.model, "training", False) and not torch.is_grad_enabled(),
        compiled=run.compiled,
    )


def each_model(calls: Sequence[ModelCall], what: str) -> int | None:
    """Samples or tokens of a step, summed over accumulated batches; None if models of the step disagree."""
    active = [call for call in calls if not call.passive] or calls
    sums: dict[Site, int] = {}
    for call in active:
        size = getattr(call, what)
        if size is None:
            return None
        sums[call.site] = sums.get(call.site, 0) + size
    return next(iter(sums.values())) if len(set(sums.values())) == 1 else None
