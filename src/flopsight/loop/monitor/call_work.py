"""The work of each call of the model: known by its shapes, or counted when they are new."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import nan
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import nn

from ...capture.hooks import internals
from ...capture.hooks.patches import Call
from ...capture.model.model_run import ModelRun, batch_size_of, tokens_of
from ...capture.time.clock import pausing
from ...capture.twin.meta_copy import NoTwinError
from ...distributed.topology import is_engine
from .backward_path import CallGraph, calls_reached
from .counted_work import UNCOUNTED, UNKNOWN, CallCount, CountedWork, Work, count_call, may_train
from .live_steps import LiveSteps, SlowProfile
from .signatures import signature
from .step import CallKind, Step, size_of
from .step_clock import StepClock

needs_gradient = attrgetter("requires_grad")
BACKWARD = -1
"""A backward in the history of a step."""
MOST_PATHS = 1024
MOST_KINDS = 4096
MASKS = ("attention_mask", "decoder_attention_mask")


class CallWork:
    """Adds the work of every call to its step."""

    def __init__(self, models: Sequence[nn.Module], clock: StepClock, device: torch.device) -> None:
        self.counted = CountedWork.on(device)
        self.called = False
        """True once a model was called in a step."""
        self.notes: dict[str, None] = {}
        """What a user should know; a dict, to keep the order."""
        self.slow: SlowProfile | None = None
        """Who wants a profile of a slow step."""
        self._clock = clock
        self._device = device.type
        self._given = models
        self._trained: WeakSet[nn.Module] = WeakSet(models)
        self._parameters: WeakKeyDictionary[nn.Module, list[nn.Parameter]] = WeakKeyDictionary()
        self._optimizers: WeakKeyDictionary[torch.optim.Optimizer, bool] = WeakKeyDictionary()
        self._live: LiveSteps | None = None
        """There if the work of a step is more or less than that of its calls."""
        self._kinds: dict[Hashable, CallKind] = {}
        self._families: dict[Hashable, int] = {}
        self._paths: dict[tuple[int, ...], tuple[int, ...]] = {}
        """Through which calls a backward goes, by what the step did before it."""

    def is_trained(self, module: nn.Module) -> bool:
        """Whether the loop trains a module: it was given, or called with gradients; before the first is, any may be."""
        return module in self._trained or not self._trained

    def is_for(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer updates parameters that are watched."""
        if not self._given:
            return True
        known = self._optimizers.get(optimizer)
        if known is None:
            held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
            watched = {id(parameter) for model in self._given for parameter in model.parameters()}
            flat = any(map(is_engine, self._given))  # whose optimizers hold parts of one flat tensor
            known = self._optimizers[optimizer] = bool(held & watched) or not held or flat
        return known

    def begin(self, step: Step, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> Call:
        """A call begins that belongs to a step."""
        grad = torch.is_grad_enabled()
        state = (id(module), module.training, self._autocast(), self._trained_ones(module) if grad else None)
        key = (signature(args, kwargs), state)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._new_kind(key, state, module, args, kwargs)
        step.calls += 1
        step.kinds += (kind,)
        step.tokens += kind.tokens if kind.mask is None else self._unpadded(step, kwargs[kind.mask])
        step.samples += kind.samples
        if self._live is None:
            count = kind.count
            if count is None:
                count = self._count(step, kind, module, args, kwargs)
            step.history += (kind.family,)
            step.add(count.forward)
            step.graphs += (CallGraph(internals.sequence_number()) if grad else None,)
        if self._live is not None:
            return self._live.begin(step, module, call)
        return call if self.slow is None else self.slow.begin(step, module, call)

    def end(self, step: Step, output: Any) -> None:
        """The call has returned."""
        if self._live is None and step.graphs and (graph := step.graphs[-1]) is not None and not graph.end:
            graph.close(output)

    def backward_begins(self, step: Step, tensors: Any, partial: bool) -> None:
        """A backward begins: add the work of the calls that it goes through."""
        step.backwards += 1
        if self._live is not None or not step.graphs:
            return
        path = self._paths.get(step.history)
        if path is None or partial:
            path = self._path(step, tensors, partial)
            if path is None:
                self._count_steps("its backward does not go through the model as a loss does")
                step.work = UNKNOWN
                return
        for at in path:
            step.add((step.kinds[at].count or UNCOUNTED).backward)
        step.history += (BACKWARD,)

    def _path(self, step: Step, tensors: Any, partial: bool) -> tuple[int, ...] | None:
        with pausing():
            path = None if partial else calls_reached(tensors, step.graphs)
        if path is not None and len(self._paths) < MOST_PATHS:
            self._paths[step.history] = path
        return path

    def step_ends(self, step: Step) -> None:
        """The step is over."""
        for graph in step.graphs:
            if graph is not None:
                graph.nodes = ()  # a step may be held for a while, its graph may not
        if self.slow is not None:
            self.slow.end()
        if self._live is not None:
            count = self._live.end(step)
            step.work = count.forward + count.backward
        elif step.pending and not step.backwards and step.graphs:
            self._count_steps("its gradients are not made by a backward() that we see")
            step.work = UNKNOWN

    def found_later(self, key: Hashable) -> Work:
        """The work of a step that was not known when it ended, if one like it was counted since."""
        count = self.counted.known.get(key, UNCOUNTED)
        return count.forward + count.backward

    def close(self) -> None:
        """Stop at once."""
        for counting in (self._live, self.slow):
            if counting is not None:
                counting.close()

    def _count_steps(self, why: str) -> None:
        """From the next step on, count steps while they run."""
        if self._live is None:
            self._live = LiveSteps(self.counted)
            self.notes[f"Steps are counted while they run, which slows the first of each kind: {why}."] = None

    def _autocast(self) -> Hashable:
        if torch.is_autocast_enabled(self._device):
            return torch.get_autocast_dtype(self._device)
        return None

    def _trained_ones(self, module: nn.Module) -> Hashable:
        parameters = self._parameters.get(module)
        if parameters is None:
            parameters = self._parameters[module] = list(module.parameters())
        return bytes(map(needs_gradient, parameters))  # bytes are hashed faster than a tuple

    def _new_kind(self, key: Hashable, state: tuple[Any, ...], module: nn.Module, args: Any, kwargs: Any) -> CallKind:
        """A kind of call that was not seen before; its work is not counted yet."""
        self.called = True
        if torch.is_grad_enabled():
            self._trained.add(module)
        passed_on = any(value.requires_grad for value in (*args, *kwargs.values()) if type(value) is torch.Tensor)
        family = self._families.setdefault((state, passed_on), len(self._families))
        run = ModelRun(module, args, kwargs)
        tokens, samples = tokens_of(run), batch_size_of(run)
        kind = CallKind(key, family, tokens or nan, samples or nan, _padding_mask(tokens, kwargs))
        if len(self._kinds) < MOST_KINDS:
            self._kinds[key] = kind
        return kind

    def _unpadded(self, step: Step, mask: torch.Tensor) -> int:
        """The tokens that a mask keeps; those of a mask on a device are told later."""
        if mask.is_cpu:
            return int(torch.count_nonzero(mask))
        step.masks += (_on_host_later(mask),)
        return 0

    def _count(self, step: Step, kind: CallKind, module: nn.Module, args: Any, kwargs: Any) -> CallCount:
        size = size_of(kind.tokens, kind.samples)
        if self.counted.full:
            self.notes["The FLOPs of some steps are interpolated: too many shapes were counted already."] = None
            kind.count = self.counted.estimate(kind.family, size)
            return kind.count
        begin = self._clock.moment()
        try:
            profile = count_call(module, args, kwargs, train=may_train(module, args, kwargs))
        except NoTwinError as problem:
            self._count_steps(f"{type(module).__name__} has no copy without data ({problem})")
            return UNCOUNTED
        finally:
            step.counting_spans += ((begin, self._clock.moment()),)
        kind.count = self.counted.remember(kind.key, kind.family, size, profile)
        return kind.count


def _padding_mask(tokens: int | None, kwargs: dict[str, Any]) -> str | None:
    """The argument that says which tokens are padding, if there is one and it is a mask of all of them."""
    name = next((name for name in MASKS if kwargs.get(name) is not None), None)
    mask = None if name is None else kwargs[name]
    fits = type(mask) is torch.Tensor and mask.dim() == 2 and not mask.is_floating_point() and mask.numel() == tokens
    return name if fits else None


def _on_host_later(mask: torch.Tensor) -> torch.Tensor:
    """The number of tokens that a mask keeps, on the host once the device has come to this moment."""
    host = torch.empty((), dtype=torch.int64, pin_memory=True)
    return host.copy_(torch.count_nonzero(mask), non_blocking=True)
