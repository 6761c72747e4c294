"""The work of each call of the model: known by its shapes, or counted when they are new."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import nn

from ...capture.hooks.patches import Call
from ...capture.model.model_run import ModelRun, batch_size_of, tokens_of
from ...capture.twin.meta_copy import NoTwinError
from .counted_work import CountedWork, Work, count_call, may_train
from .signatures import signature
from .step import Step
from .step_clock import StepClock

needs_gradient = attrgetter("requires_grad")
MASKS = ("attention_mask", "decoder_attention_mask")


class CallWork:
    """Adds the work of every call to its step."""

    def __init__(self, models: Sequence[nn.Module], clock: StepClock, device: torch.device) -> None:
        self.counted = CountedWork.on(device)
        self.notes: dict[str, None] = {}
        """What a user should know; a dict, to keep the order."""
        self._clock = clock
        self._device = device.type
        self._given = models
        self._trained: WeakSet[nn.Module] = WeakSet(models)
        self._parameters: WeakKeyDictionary[nn.Module, list[nn.Parameter]] = WeakKeyDictionary()
        self._optimizers: WeakKeyDictionary[torch.optim.Optimizer, bool] = WeakKeyDictionary()
        self._sizes: dict[Hashable, tuple[int | None, int | None]] = {}

    def is_trained(self, module: nn.Module) -> bool:
        """Whether the loop trains a module: it was given, or called with gradients."""
        return module in self._trained

    def is_for(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer updates parameters that are watched."""
        if not self._given:
            return True
        known = self._optimizers.get(optimizer)
        if known is None:
            held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
            watched = {id(parameter) for model in self._given for parameter in model.parameters()}
            known = self._optimizers[optimizer] = bool(held & watched) or not held
        return known

    def begin(self, step: Step, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> Call:
        """A call begins that belongs to a step."""
        grad = torch.is_grad_enabled()
        if grad:
            self._trained.add(module)
        family = (id(module), module.training, grad, self._autocast(), self._frozen(module))
        key = (signature(args, kwargs), family)
        sizes = self._sizes.get(key)
        if sizes is None:
            run = ModelRun(module, args, kwargs)
            sizes = tokens_of(run), batch_size_of(run)
            if len(self._sizes) < 4096:
                self._sizes[key] = sizes
        step.size(self._tokens(step, sizes[0], kwargs), sizes[1])
        work = self.counted.known.get(key)
        if work is None:
            work = self._count(step, key, family, sizes[0] or sizes[1] or 0, module, args, kwargs)
        step.add(work)
        return call

    def end(self, step: Step, output: Any) -> None:
        """The call has returned."""

    def backward_begins(self, step: Step, tensors: Any) -> None:
        """A backward begins."""

    def backward_ends(self, step: Step) -> None:
        """A backward has ended."""

    def step_ends(self, step: Step) -> None:
        """The step is over."""

    def _autocast(self) -> Hashable:
        if torch.is_autocast_enabled(self._device):
            return torch.get_autocast_dtype(self._device)
        return None

    def _frozen(self, module: nn.Module) -> Hashable:
        parameters = self._parameters.get(module)
        if parameters is None:
            parameters = self._parameters[module] = list(module.parameters())
        return tuple(map(needs_gradient, parameters))

    def _tokens(self, step: Step, tokens: int | None, kwargs: dict[str, Any]) -> int | None:
        """Tokens of a call without padding, if a mask says what is padding."""
        if tokens is None or not kwargs:
            return tokens
        mask = next((kwargs[name] for name in MASKS if kwargs.get(name) is not None), None)
        if type(mask) is not torch.Tensor or mask.dim() != 2 or mask.is_floating_point() or mask.numel() != tokens:
            return tokens
        if mask.is_cpu:
            return int(torch.count_nonzero(mask))
        step.masks.append(_on_host_later(mask))
        return 0

    def _count(
        self, step: Step, key: Hashable, family: Hashable, size: int, module: nn.Module, args: Any, kwargs: Any
    ) -> Work | None:
        if self.counted.full:
            self.notes["The work of some steps is interpolated: too many shapes were counted already."] = None
            return self.counted.estimate(family, size)
        begin = self._clock.moment() if self._clock.queues else None
        try:
            profile = count_call(module, args, kwargs, train=may_train(module, args, kwargs))
        except NoTwinError as problem:
            self.notes[f"{type(module).__name__} could not be counted: {problem}."] = None
            return None
        finally:
            if begin is not None:
                step.counting_spans.append((begin, self._clock.moment()))
        return self.counted.remember(key, family, size, profile)


def _on_host_later(mask: torch.Tensor) -> torch.Tensor:
    """The number of tokens that a mask keeps, on the host once the device has come to this moment."""
    host = torch.empty((), dtype=torch.int64, pin_memory=True)
    return host.copy_(torch.count_nonzero(mask), non_blocking=True)
