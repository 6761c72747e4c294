"""Leave no trace: what a run may change is noted before it and put back after it, also when the run raises."""

from __future__ import annotations

import operator
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from . import internals
from .twin import PARALLEL

CONTAINERS = frozenset((list, dict, set, OrderedDict, defaultdict, Counter, deque))
OPTIMIZER_DEPTH = 3
"""An optimizer's attributes hold its state, that the state of a parameter, and that perhaps a list of tensors."""


@contextmanager
def kept_rng() -> Iterator[None]:
    """Put back the random states of torch, its devices, numpy and Python."""
    numpy = sys.modules.get("numpy")
    state = torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    numpy_state = numpy.random.get_state() if numpy else None
    python_state = random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(state)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        if numpy:
            numpy.random.set_state(numpy_state)
        random.setstate(python_state)


@contextmanager
def kept_model(model: nn.Module) -> Iterator[None]:
    """Put back what every module holds: buffers with their values, flags, attributes, what is in lists and dicts.

    Attributes go back together: a cache without the length that was noted beside it would be worse than none.
    """
    modules = [module for module in model.modules() if not isinstance(module, torch.jit.ScriptModule)]
    if any(type(module).__module__.startswith(PARALLEL) for module in modules):
        modules = []  # a parallel wrapper sets itself up in its first forward, and not only in Python
    held = [Contents(vars(module)) for module in modules]
    flags = [(module, module.training) for module in model.modules()]
    buffers = Values(model.buffers())
    try:
        yield
    finally:
        for contents in held:
            contents.put_back()
        for module, flag in flags:
            module.training = flag
        buffers.put_back()


@contextmanager
def kept_inputs(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Put back inputs that a forward wrote into."""
    inputs = Values(tensors)
    try:
        yield
    finally:
        inputs.put_back(only_written=True)


@contextmanager
def kept_training_state(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Iterator[None]:
    """Put back gradients and, where an optimizer steps, parameters and everything that it keeps."""
    steps = [] if optimizer is None else [p for group in optimizer.param_groups for p in group["params"]]
    parameters = list(dict.fromkeys([*model.parameters(), *steps]))
    gradients = [(parameter, parameter.grad) for parameter in parameters]
    held = Contents({} if optimizer is None else vars(optimizer), depth=OPTIMIZER_DEPTH)
    values = Values([] if optimizer is None else [*parameters, *held.tensors()])
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        held.put_back()
        values.put_back()


class Values:
    """What tensors hold, with the version that they have: a graph that was built before still runs its backward."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        there = {id(tensor): tensor for tensor in tensors if not (tensor.is_meta or nn.parameter.is_lazy(tensor))}
        with internals.without_modes(), torch.no_grad():
            self._noted = [(t, t.detach().clone(), internals.version(t)) for t in there.values()]

    def put_back(self, *, only_written: bool = False) -> None:
        """Write the values back; `only_written` trusts autograd to know which ones changed."""
        with internals.without_modes():
            for tensor, value, version in self._noted:
                written = version is None or version != tensor._version
                if (written or not only_written) and not _expanded(tensor):
                    internals.put_back(tensor, value, version)


def _expanded(tensor: torch.Tensor) -> bool:
    """Whether several elements of a tensor lie in one place: nobody can have written into it."""
    return tensor.layout is torch.strided and any(
        not step and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    )


class Contents:
    """What dictionaries and lists hold, and the containers in them; they stay the same objects."""

    def __init__(self, container: Any, depth: int = 1) -> None:
        self._noted: list[tuple[Any, list[Any]]] = []
        self._note(container, depth)

    def _note(self, container: Any, depth: int) -> None:
        held = _parts(container)
        self._noted.append((container, held))
        if depth:
            for value in held:
                if type(value) in CONTAINERS:
                    self._note(value, depth - 1)

    def tensors(self) -> Iterator[torch.Tensor]:
        """The tensors among them."""
        return (value for _, held in self._noted for value in held if isinstance(value, torch.Tensor))

    def put_back(self) -> None:
        """Let the containers hold again what they held."""
        for container, held in self._noted:
            now = _parts(container)
            if len(now) == len(held) and all(map(operator.is_, now, held)):
                continue
            container.clear()
            if isinstance(container, dict):
                middle = len(held) // 2
                container.update(zip(held[:middle], held[middle:], strict=True))
            elif isinstance(container, set):
                container.update(held)
            else:
                container.extend(held)


def _parts(container: Any) -> list[Any]:
    """Everything in a container; the keys of a dictionary first, then its values."""
    return [*container, *container.values()] if isinstance(container, dict) else list(container)
