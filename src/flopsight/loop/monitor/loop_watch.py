"""Notices what a training loop does: outermost calls of its models, backwards, and updates of the optimizers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol
from weakref import ref

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.nn.utils import stateless

from ...capture.hooks import internals
from ...capture.hooks.patches import Call, calls_of, compiling, module_calls, unpatched, wrapped
from ...capture.model.model_run import ModelRun
from ...capture.model.training_state import read_twice
from ...capture.model.wrappers import compiled_from
from ...distributed.topology import is_engine
from ..updates import Updates

Admits = Callable[[nn.Module], bool]
SINGLE = frozenset((torch.Tensor, type(None), bool))
"""Types of most arguments of a backward, none of which is an iterator."""
REGISTRATIONS = (register_module_module_registration_hook, register_module_parameter_registration_hook)


def _checkpointing() -> Iterator[tuple[Any, str]]:
    """What writes checkpoints: torch.save, and what else is imported."""
    yield torch, "save"
    for library, names in {
        "torch.distributed.checkpoint": ("save", "async_save"),
        "safetensors.torch": ("serialize_file",),  # which its functions call, however they were imported
    }.items():
        found = sys.modules.get(library)
        yield from ((found, name) for name in names if hasattr(found, name))


class Listener(Protocol):
    """What is called while the loop runs; an exception of its own must not leave it."""

    def call_begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> Call:
        """A model is called; gives what is to be called in its place, mostly `call` itself."""

    def call_ends(self, output: Any) -> None:
        """The call of the model has returned."""

    def call_raised(self) -> None:
        """The call of the model has raised."""

    def called_elsewhere(self) -> None:
        """Another thread than the one that trains has called a model with gradients."""

    def backward_begins(self, tensors: Any, partial: bool, inputs: Any) -> None:
        """A backward begins, outside every other one; a `partial` one makes a graph of its own, or only the gradients of `inputs`."""

    def backward_ends(self, raised: bool) -> None:
        """The backward has returned, or raised."""

    def updated(self, optimizer: torch.optim.Optimizer, unlike: str) -> None:
        """An optimizer has stepped, or a gradient scaler has left its step out."""

    def trains(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer belongs to the loop."""

    def saving_begins(self) -> None:
        """The loop begins to write a checkpoint."""

    def saving_ends(self) -> None:
        """It is written, or that failed."""

    def rebuilt(self) -> None:
        """A module or a parameter was put into a module, by something else than a call of the model."""

    def engine_stepped(self, skipped: bool) -> None:
        """A DeepSpeed engine has stepped, with any number of steps of its optimizer, or with none if it skipped them."""


def steps_by_itself(model: nn.Module) -> bool:
    """Whether a model is a DeepSpeed engine whose `step()` ends a step; one of a pipeline trains a whole batch at once."""
    return is_engine(model) and not hasattr(model, "train_batch")


MOST_VAIN_SEARCHES = 8
"""Steps without a call of a model that was watched after which no other model is looked for."""


class LoopWatch:
    """Wraps as little as possible: the classes of the modules that the loop calls, `backward`, and optimizer hooks.

    Which modules these are is found in the first step, by a wrapper around all module calls. A model that torch has
    compiled is called without any wrapper of ours inside.
    """

    def __init__(self, models: Sequence[nn.Module] | None, listener: Listener, admits: Admits) -> None:
        """`models` are those to watch, with all their submodules; None watches every module that `admits` lets in."""
        self._models = models
        self._admits = admits
        self.listener = listener
        self._updates = Updates(self._updated, self._trains)
        self._stack = ExitStack()
        self._calls = ExitStack()
        """What wraps module calls: a search first, then the classes that it found."""
        self._ours = {id(module) for model in models or () for module in model.modules()}
        self._roots: dict[int, ref[nn.Module]] = {}
        self._thread = 0
        self._trained = False
        """True once a call with gradients has shown which thread trains."""
        self._busy = False
        """True within a call of a model, a backward or the writing of a checkpoint: what these do is theirs."""
        self._vain_searches = 0
        self.searching = False
        """True until a step has called a model."""

    def start(self) -> None:
        """Attach to torch."""
        self._thread = threading.get_ident()
        self._updates.watch()
        around = partial(self._around_backward, whole=True)
        self._stack.enter_context(wrapped(torch.autograd, "backward", around, bare=True))
        around = partial(self._around_backward, whole=False)
        self._stack.enter_context(wrapped(torch.autograd, "grad", around, bare=True))
        self._stack.enter_context(wrapped(torch, "compile", self._around_compile))
        self._stack.enter_context(wrapped(stateless, "_reparametrize_module", self._around_replacing))
        for owner, name in _checkpointing():
            self._stack.enter_context(wrapped(owner, name, self._around_saving))
        for register in REGISTRATIONS:
            self._stack.callback(register(self._registered).remove)
        for kind in {type(engine) for engine in self._models or () if steps_by_itself(engine)}:
            owner = next(one for one in kind.__mro__ if "step" in vars(one))
            self._stack.enter_context(wrapped(owner, "step", self._around_engine_step))
        self._search()

    def stop(self) -> None:
        """Remove everything that was attached."""
        self._calls.close()
        self._stack.close()
        self._updates.end()

    def step_is_over(self) -> None:
        """After the first step that called a model, wrap only the classes that were called."""
        if self.searching and self._roots:
            self._calls.close()
            self._wrap_classes()

    def step_without_a_call(self) -> None:
        """After a step that called none of the models found so far: it may have trained a new one, which the next step tells."""
        if self._models is None and self._vain_searches < MOST_VAIN_SEARCHES:
            self._vain_searches += 1
            self._search_again()

    def _search_again(self) -> None:
        if not self.searching:
            self._calls.close()
            self._search()

    def _search(self) -> None:
        self.searching = True
        self._calls.enter_context(module_calls(self._find, bare=True))

    def _wrap_classes(self) -> None:
        self.searching = False
        found = [module for one in self._roots.values() if (module := one()) is not None]
        called = {id(module) for one in found for module in one.modules()}
        for later in [model for model in self._models or () if id(model) not in called]:
            self._roots[id(later)] = ref(later)  # a second model may be called only after a while
            found.append(later)
        for kind in {type(module) for module in found}:
            self._calls.enter_context(calls_of(kind, self._watch))

    def _find(self, plain: Call) -> Call:
        watched = self._watch(plain)

        def finding(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if compiling() or self._busy or not self._is_ours(module):
                return plain(module, *args, **kwargs)
            if internals.graph_task() != -1:  # a checkpoint runs it again
                return plain(module, *args, **kwargs)
            thread, trains = threading.get_ident(), torch.is_grad_enabled() and not self._trained
            if self._roots and thread != self._thread and not trains:
                return self._elsewhere(plain, module, *args, **kwargs)
            self._trained |= trains
            self._thread = thread  # the loop may run on another thread than the one that entered
            self._roots[id(module)] = ref(module)
            with unpatched() if ModelRun(module).compiled else nullcontext():
                return watched(module, *args, **kwargs)

        return finding

    def _is_ours(self, module: nn.Module) -> bool:
        inner = compiled_from(module)
        if self._models is None:
            return self._admits(inner)
        given = any(inner is compiled_from(model) for model in self._models)
        return given or (id(inner) in self._ours and next(inner.parameters(), None) is not None)

    def _watch(self, plain: Call) -> Call:
        roots, thread = self._roots, threading.get_ident

        def watched(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if compiling() or id(module) not in roots:
                return plain(module, *args, **kwargs)
            if roots[id(module)]() is not module or internals.graph_task() != -1:
                return plain(module, *args, **kwargs)
            if thread() != self._thread:
                return self._elsewhere(plain, module, *args, **kwargs)
            if self._busy:
                return plain(module, *args, **kwargs)
            self._busy = True
            try:
                output = self.listener.call_begins(module, args, kwargs, plain)(module, *args, **kwargs)
            except BaseException:
                self._busy = False
                self.listener.call_raised()
                raise
            self._busy = False
            self.listener.call_ends(output)
            return output

        return watched

    def _elsewhere(self, plain: Call, *args: Any, **kwargs: Any) -> Any:
        """A call on another thread, which autograd numbers by itself: what a backward reaches there is not known."""
        if torch.is_grad_enabled():
            self.listener.called_elsewhere()
        return plain(*args, **kwargs)

    def _trains(self, optimizer: torch.optim.Optimizer) -> bool:
        return self.listener.trains(optimizer)

    def _updated(self, optimizer: torch.optim.Optimizer, unlike: str) -> None:
        self.listener.updated(optimizer, unlike)

    def _around_backward(self, plain: Call, *, whole: bool) -> Call:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if compiling() or self._busy or threading.get_ident() != self._thread:
                return plain(*args, **kwargs)
            self._busy = True
            if not (SINGLE.issuperset(map(type, args)) and SINGLE.issuperset(map(type, kwargs.values()))):
                args = tuple(map(read_twice, args))
                kwargs = {name: read_twice(value) for name, value in kwargs.items()}
            tensors = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
            graph = args[3] if len(args) > 3 else kwargs.get("create_graph")
            place = 5 if whole else 1
            inputs = args[place] if len(args) > place else kwargs.get("inputs")
            self.listener.backward_begins(tensors, not whole or bool(graph) or inputs is not None, inputs)
            raised = True
            try:
                result = plain(*args, **kwargs)
                raised = False
                return result
            finally:
                self._busy = False
                self.listener.backward_ends(raised)
                self._updates.backward_ended()

        return backward

    def _around_saving(self, plain: Call) -> Call:
        def saving(*args: Any, **kwargs: Any) -> Any:
            if self._busy or threading.get_ident() != self._thread:
                return plain(*args, **kwargs)
            self._busy = True
            self.listener.saving_begins()
            try:
                return plain(*args, **kwargs)
            finally:
                self._busy = False
                self.listener.saving_ends()

        return saving

    def _registered(self, *_what: object) -> None:
        if not self._busy:  # sharded models put their parameters in and out while they run
            self.listener.rebuilt()
            if self._models is None:
                self._search_again()

    def _around_engine_step(self, plain: Call) -> Call:
        def step(engine: Any, *args: Any, **kwargs: Any) -> Any:
            before, skipped = engine.global_steps, engine.skipped_steps
            result = plain(engine, *args, **kwargs)
            if engine.global_steps != before and any(engine is model for model in self._models or ()):
                self.listener.engine_stepped(engine.skipped_steps != skipped)
            return result

        return step

    def _around_replacing(self, plain: Call) -> Call:
        """A functional call puts other parameters into a module and takes them out again."""

        @contextmanager
        def replacing(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with plain(*args, **kwargs) as result:
                self._registered()
                yield result
            self._registered()

        return replacing

    def _around_compile(self, compile_: Call) -> Call:
        """torch.compile keeps the `__call__` that it finds, so ours are taken off meanwhile."""

        def compiling_now(*args: Any, **kwargs: Any) -> Any:
            with self._unwrapped():
                return compile_(*args, **kwargs)

        return compiling_now

    @contextmanager
    def _unwrapped(self) -> Iterator[None]:
        if self._busy:  # the wrapper is in use: the model compiles a part of itself while it runs
            with unpatched():
                yield
            return
        self._calls.close()
        try:
            yield
        finally:
            self._search()  # from now on the loop may call the compiled model
