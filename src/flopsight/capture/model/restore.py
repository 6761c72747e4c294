"""Leave no trace: what a run may change is noted before it and put back after it, also when the run raises.

Where one thing cannot be put back, everything else still is; then the problem is raised.
"""

from __future__ import annotations

import operator
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from ...errors import StateError
from ..hooks import internals
from .tensors import stored_bytes
from .wrappers import is_parallel, training_flags

CONTAINERS = frozenset((list, dict, set, OrderedDict, defaultdict, Counter, deque))


@contextmanager
def kept_rng() -> Iterator[None]:
    """Put back the random states of torch, its devices, numpy and Python."""
    numpy = sys.modules.get("numpy")
    state = torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    numpy_state = numpy.random.get_state() if numpy else None
    python_state = random.getstate()
    with ExitStack() as afterwards:
        afterwards.callback(random.setstate, python_state)
        if numpy:
            afterwards.callback(numpy.random.set_state, numpy_state)
        if cuda is not None:
            afterwards.callback(torch.cuda.set_rng_state_all, cuda)
        afterwards.callback(torch.set_rng_state, state)
        yield


@contextmanager
def own_autocast_cache() -> Iterator[None]:
    """Begin without weights that autocast has cast already, and leave none: an autocast around us would keep them."""
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        torch.clear_autocast_cache()


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
    flags = training_flags(model)
    buffers = Values(model.buffers())

    def put_flags_back() -> None:
        for module, flag in flags:
            if module.training != flag:
                module.training = flag

    with ExitStack() as afterwards:  # the last one runs first, and each of them runs
        afterwards.callback(buffers.put_back)
        afterwards.callback(put_flags_back)
        afterwards.callback(held.put_back)
        yield buffers.nbytes


@contextmanager
def kept_inputs(tensors: Iterable[torch.Tensor]) -> Iterator[int]:
    """Put back inputs that a forward wrote into."""
    inputs = Values(tensors)
    try:
        yield inputs.nbytes
    finally:
        inputs.put_back(only_written=True)


def put_all_back(steps: Iterable[Callable[[], None]]) -> None:
    """Take every step, also after one that raised; then raise the first problem."""
    problems: list[Exception] = []
    for step in steps:
        try:
            step()
        except Exception as problem:
            problems.append(problem)
    if problems:
        raise StateError(
            f"Not everything that the run changed could be put back ({type(problems[0]).__name__}: {problems[0]}); "
            f'the rest is as it was. To leave the model alone, run a copy of it: on="copy".'
        ) from problems[0]


class Values:
    """What tensors hold, with the version that they have: a graph that was built before still runs its backward.

    A wrapper subclass is noted by the plain tensors in it, since few of them can be copied into with all the rest.
    """

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        self._noted: list[internals.Noted] = []
        self._wrappers: list[tuple[torch.Tensor, dict[str, torch.Tensor], int | None]] = []
        seen: dict[int, torch.Tensor] = {}
        with internals.without_modes(), torch.no_grad():
            for tensor in tensors:
                self._note(tensor, seen)

    def _note(self, tensor: torch.Tensor, seen: dict[int, torch.Tensor]) -> None:
        if id(tensor) in seen or tensor.is_meta or nn.parameter.is_lazy(tensor) or _expanded(tensor):
            return
        seen[id(tensor)] = tensor
        inside = internals.inner_tensors(tensor)
        if not inside:
            self._noted.append((tensor, tensor.detach().clone(), internals.version(tensor)))
            return
        self._wrappers.append((tensor, inside, internals.version(tensor)))
        for part in inside.values():
            self._note(part, seen)

    @property
    def nbytes(self) -> int:
        """What the copies take."""
        return sum(stored_bytes(value) for _, value, _ in self._noted)

    def put_back(self, *, only_written: bool = False) -> None:
        """Write the values back; `only_written` trusts autograd to know which ones changed."""
        noted = self._noted
        if only_written:
            noted = [
                (t, value, version) for t, value, version in noted if version is None or version != internals.version(t)
            ]
        with internals.without_modes():
            steps = [partial(_put_together, *wrapper) for wrapper in self._wrappers]
            try:
                internals.put_back(noted)
            except Exception:  # one of them cannot be written into: all the others are
                steps += [partial(internals.put_back, [one]) for one in noted]
            put_all_back(steps)


def _put_together(wrapper: torch.Tensor, inside: dict[str, torch.Tensor], version: int | None) -> None:
    """Let a wrapper subclass hold the tensors that it held, with the version that it had."""
    for name, part in inside.items():
        if getattr(wrapper, name, None) is not part:
            setattr(wrapper, name, part)
    internals.set_versions([(wrapper, version)])


def _expanded(tensor: torch.Tensor) -> bool:
    """Whether several elements of a tensor share memory, so that torch refuses to write into it."""
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
        put_all_back(partial(_put_contents_back, container, held) for container, held in self._noted)


def _put_contents_back(container: Any, held: list[Any]) -> None:
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
