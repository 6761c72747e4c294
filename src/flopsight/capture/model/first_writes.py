"""What a forward writes into although only an optimizer should, such as a table with `max_norm`: copied before the first write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn

from ..hooks import internals
from .model_run import ModelRun
from .restore import Values, put_all_back
from .tensors import flat
from .wrappers import is_parallel

OWN = frozenset(vars(nn.Module()))
"""Attributes of every module: its parameters and buffers, which are kept apart, its submodules and hooks."""
_guards: list[_Guard] = []


@contextmanager
def kept_if_written(run: ModelRun) -> Iterator[None]:
    """Put back parameters, other tensors of modules, and inputs that an op writes into while a counter watches.

    A copy of all of them would double the memory of every model, so a counter announces each write with `before_writing`,
    and what is written is copied then. A `.data` that was replaced is put back too. Parameters that an optimizer is about to
    step are copied elsewhere. Within a block for the same model nothing more is done: that one puts back.
    """
    if any(guard.model is run.model for guard in _guards):
        yield
        return
    guard = _Guard(run.model, _watched(run))
    _guards.append(guard)
    try:
        yield
    finally:
        _guards.remove(guard)
        guard.put_back()


def writes_are_watched() -> bool:
    """Whether a run is under way that is put back."""
    return bool(_guards)


def before_writing(tensors: Iterable[torch.Tensor]) -> None:
    """An op is about to write into these tensors."""
    for guard in _guards:
        guard.note(tensors)


def _watched(run: ModelRun) -> Iterator[torch.Tensor]:
    yield from run.tensors
    modules = list(run.model.modules())
    if run.copied or any(map(is_parallel, modules)):  # a wrapper gathers weights into memory that comes and goes
        return
    if not (run.train and run.optimizer is not None):
        yield from run.model.parameters()
    for module in modules:
        yield from flat([value for name, value in vars(module).items() if name not in OWN])


class _Guard:
    def __init__(self, model: nn.Module, tensors: Iterable[torch.Tensor]) -> None:
        self.model = model
        self._watched: dict[int, list[torch.Tensor]] = {}
        self._places: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        """The memory of tensors, each with another that looks at it."""
        self._copies: list[Values] = []
        with internals.without_modes(), torch.no_grad():
            for tensor in {id(tensor): tensor for tensor in tensors}.values():
                if not (tensor.is_meta or nn.parameter.is_lazy(tensor)):
                    self._watch(tensor)

    def _watch(self, tensor: torch.Tensor) -> None:
        inside = internals.inner_tensors(tensor)
        for part in inside.values() or [tensor]:
            if _has_memory(part):
                key = internals.storage_key(part)
                self._watched.setdefault(key, []).append(tensor)
                if not inside:
                    self._places.append((key, tensor, tensor.detach()))

    def note(self, tensors: Iterable[torch.Tensor]) -> None:
        """Copy those of the tensors that are watched."""
        for tensor in tensors if self._watched else ():
            found = self._watched.pop(internals.storage_key(tensor), None) if _has_memory(tensor) else None
            if found is not None:
                self._copies.append(Values(found))

    def put_back(self) -> None:
        """Let every tensor have the memory that it had, and what is written there the values."""
        moved = [(tensor, place) for key, tensor, place in self._places if internals.storage_key(tensor) != key]
        put_all_back(partial(setattr, tensor, "data", place) for tensor, place in moved)
        put_all_back(copy.put_back for copy in self._copies)


def _has_memory(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested
