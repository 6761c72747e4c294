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

from ..hooks import internals
from .tensors import stored_bytes
from .wrappers import is_parallel

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
def kept_model(model: nn.Module) -> Iterator[int]:
    """Put back what every module holds: buffers with their values, flags, attributes, what is in lists and dicts.

    This and the contexts below give the bytes that they had to copy.

    Attributes go back together: a cache without the length that was noted beside it would be worse than none.
    """
    modules = list(model.modules())
    parallel = any(map(is_parallel, modules))
    # a parallel wrapper sets itself up in its first forward, and not only in Python
    held = AttributeContents(
        [] if parallel else [vars(m) for m in modules if not isinstance(m, torch.jit.ScriptModule)]
    )
    flags = [module.training for module in modules]
    buffers = Values(model.buffers())
    try:
        yield buffers.nbytes
    finally:
        held.put_back()
        for module, flag in zip(modules, flags, strict=True):
            if module.training != flag:
                module.training = flag
        buffers.put_back()


@contextmanager
def kept_inputs(tensors: Iterable[torch.Tensor]) -> Iterator[int]:
    """Put back inputs that a forward wrote into."""
    inputs = Values(tensors)
    try:
        yield inputs.nbytes
    finally:
        inputs.put_back(only_written=True)


@contextmanager
def kept_training_state(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Iterator[int]:
    """Put back gradients and, where an optimizer steps, parameters and everything that it keeps."""
    steps = [] if optimizer is None else [p for group in optimizer.param_groups for p in group["params"]]
    parameters = list(dict.fromkeys([*model.parameters(), *steps]))
    gradients = [(parameter, parameter.grad) for parameter in parameters]
    held = AttributeContents([] if optimizer is None else [vars(optimizer)], depth=OPTIMIZER_DEPTH)
    values = Values([] if optimizer is None else [*parameters, *held.tensors()])
    for parameter in parameters:
        parameter.grad = None
    try:
        yield values.nbytes
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
            self._noted = [(t, t.detach().clone(), internals.version(t)) for t in there.values() if not _expanded(t)]

    @property
    def nbytes(self) -> int:
        """What the copies take."""
        return sum(stored_bytes(value) for _, value, _ in self._noted)

    def put_back(self, *, only_written: bool = False) -> None:
        """Write the values back; `only_written` trusts autograd to know which ones changed."""
        noted = self._noted
        if only_written:
            noted = [(t, value, version) for t, value, version in noted if version is None or version != t._version]
        with internals.without_modes():
            internals.put_back(noted)


def _expanded(tensor: torch.Tensor) -> bool:
    """Whether several elements of a tensor lie in one place: nobody can write into it."""
    if tensor.layout is not torch.strided or tensor.is_nested or 0 not in tensor.stride():
        return False
    return any(not step and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True))


class AttributeContents:
    """What dictionaries and lists hold, and the containers in them; they stay the same objects."""

    def __init__(self, containers: Iterable[Any], depth: int = 1) -> None:
        self._noted: list[tuple[Any, list[Any]]] = []
        self._empty: list[Any] = []
        for container in containers:
            self._note(container, depth)

    def _note(self, container: Any, depth: int) -> None:
        held = _parts(container)
        self._noted.append((container, held))
        for value in held if depth else ():
            if type(value) in CONTAINERS:
                if value:
                    self._note(value, depth - 1)
                else:
                    self._empty.append(value)  # most are: the hooks that a module does not have

    def tensors(self) -> Iterator[torch.Tensor]:
        """The tensors among them."""
        return (value for _, held in self._noted for value in held if isinstance(value, torch.Tensor))

    def put_back(self) -> None:
        """Let the containers hold again what they held."""
        for container in self._empty:
            if container:
                container.clear()
        for container, held in self._noted:
            now = _parts(container)
            if len(now) != len(held) or not all(map(operator.is_, now, held)):
                container.clear()
                _fill(container, held)


def _parts(container: Any) -> list[Any]:
    """Everything in a container; the keys of a dictionary first, then its values."""
    return [*container, *container.values()] if isinstance(container, dict) else list(container)


def _fill(container: Any, parts: list[Any]) -> None:
    if isinstance(container, dict):
        middle = len(parts) // 2
        container.update(zip(parts[:middle], parts[middle:], strict=True))
    elif isinstance(container, set):
        container.update(parts)
    else:
        container.extend(parts)
