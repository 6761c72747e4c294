"""The work of each call of the model: known by its shapes, or counted when they are new."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
from .counted_work import CallCount, CountedWork, Work, count_call, may_train
from .live_steps import LiveSteps, SlowProfile
from .signatures import signature
from .step import Step
from .step_clock import StepClock

needs_gradient = attrgetter("requires_grad")
BACKWARD = -1
"""A backward in the history of a step."""
MOST_PATHS = 1024
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
        self._families: dict[Hashable, int] = {}
        self._paths: dict[tuple[int, ...], tuple[int, ...]] = {}
        """Through which calls a backward goes, by what the step did before it."""
        self._sizes: dict[Hashable, tuple[int | None, int | None]] = {}

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
        self.called = True
        grad = torch.is_grad_enabled()
        if grad:
            self._trained.add(module)
        passed_on = any(value.requires_grad for value in (*args, *kwargs.values()) if type(value) is torch.Tensor)
        family = (id(module), module.training, grad, passed_on, self._autocast(), self._frozen(module))
        key = (signature(args, kwargs), family)
        sizes = self._sizes.get(key)
        if sizes is None:
            run = ModelRun(module, args, kwargs)
            sizes = tokens_of(run), batch_size_of(run)
            if len(self._sizes) < 4096:
                self._sizes[key] = sizes
        step.size(self._tokens(step, sizes[0], kwargs), sizes[1])
        step.keys.append(key)
        if self._live is None:
            self._note(step, self._look_up(step, key, family, sizes[0] or sizes[1] or 0, module, args, kwargs), family)
        if self._live is not None:
            return self._live.begin(step, module, call)
        return call if self.slow is None else self.slow.begin(step, module, call)

    def _note(self, step: Step, count: CallCount | None, family: Hashable) -> None:
        kind = self._families.setdefault(family, len(self._families))
        step.history = (*step.history, kind)
        step.works.append(count)
        step.add(None if count is None else count.forward)
        step.graphs.append(CallGraph(internals.sequence_number()) if torch.is_grad_enabled() else None)

    def end(self, step: Step, output: Any) -> None:
        """The call has returned."""
        if self._live is None and step.graphs and (graph := step.graphs[-1]) is not None and not graph.end:
            graph.close(output)

    def backward_begins(self, step: Step, tensors: Any, partial: bool) -> None:
        """A backward begins: add the work of the calls that it goes through."""
        step.backwards += 1
        if self._live is not None or not step.works:
            return
        path = self._paths.get(step.history)
        if path is None:
            with pausing():
                path = None if partial else calls_reached(tensors, step.graphs)
            if path is None:
                self._count_steps("its backward does not go through the model as a loss does")
                step.work = None
                return
            if len(self._paths) < MOST_PATHS:
                self._paths[step.history] = path
        for at in path:
            count = step.works[at]
            step.add(None if count is None else count.backward)
        step.history = (*step.history, BACKWARD)

    def step_ends(self, step: Step) -> None:
        """The step is over."""
        for graph in step.graphs:
            if graph is not None:
                graph.nodes = ()  # a step may be held for a while, its graph may not
        if self.slow is not None:
            self.slow.end()
        if self._live is not None:
            count = self._live.end(step)
            step.work = None if count is None else count.forward + count.backward
        elif step.pending and not step.backwards and step.works:
            self._count_steps("its gradients are not made by a backward() that we see")
            step.work = None

    def found_later(self, key: Hashable) -> Work | None:
        """The work of a step that was not known when it ended, if one like it was counted since."""
        count = self.counted.known.get(key)
        return None if count is None else count.forward + count.backward

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

    def _frozen(self, module: nn.Module) -> Hashable:
        parameters = self._parameters.get(module)
        if parameters is None:
            parameters = self._parameters[module] = list(module.parameters())
        return bytes(map(needs_gradient, parameters))  # bytes are hashed faster than a tuple

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

    def _look_up(
        self, step: Step, key: Hashable, family: Hashable, size: int, module: nn.Module, args: Any, kwargs: Any
    ) -> CallCount | None:
        count = self.counted.known.get(key)
        if count is not None:
            return count
        if self.counted.full:
            self.notes["The FLOPs of some steps are interpolated: too many shapes were counted already."] = None
            return self.counted.estimate(family, size)
        begin = self._clock.moment() if self._clock.queues else None
        try:
            profile = count_call(module, args, kwargs, train=may_train(module, args, kwargs))
        except NoTwinError as problem:
            self._count_steps(f"{type(module).__name__} has no copy without data ({problem})")
            return None
        finally:
            if begin is not None:
                step.counting_spans.append((begin, self._clock.moment()))
        return self.counted.remember(key, family, size, profile)


def _on_host_later(mask: torch.Tensor) -> torch.Tensor:
    """The number of tokens that a mask keeps, on the host once the device has come to this moment."""
    host = torch.empty((), dtype=torch.int64, pin_memory=True)
    return host.copy_(torch.count_nonzero(mask), non_blocking=True)
