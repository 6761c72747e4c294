"""Whose parameter is the optimizer working on? Its ops carry no module, but their tensors belong to parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import internals
from .metas import flat, raw
from .sites import Site, Sites

Part = tuple[Site, tuple[Any, ...], tuple[Any, ...], Any]


class Ownership:
    """The rows that the tensors of one optimizer step belong to; results belong to the row of their operands.

    Storages are what is known: an optimizer works on views of what it keeps, and a sharded parameter is an envelope.
    """

    def __init__(self, sites: Sites, optimizer: torch.optim.Optimizer) -> None:
        self._outside = sites.outside
        self._rows: dict[int, Site] = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                row = sites.owners.get(id(parameter))
                if row is not None:
                    state = optimizer.state.get(parameter, {})
                    for tensor in flat([parameter, parameter.grad, state]):
                        self._rows[_key(tensor)] = row

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Iterator[Part]:
        """One call as one part a row: an op over lists of tensors works on many parameters at once."""
        lists = [value for value in args if isinstance(value, list | tuple) and value and _tensors(value)]
        if not lists:
            row = self._row_of(flat((args, kwargs)))
            for tensor in flat(output):
                self._rows[_key(tensor)] = row
            yield row, raw(args), tuple((name, raw(value)) for name, value in kwargs.items()), raw(output)
            return
        length = len(lists[0])
        rows = [self._row_of(values[i] for values in lists if i < len(values)) for i in range(length)]
        if isinstance(output, list | tuple) and len(output) == length:
            for tensor, row in zip(output, rows, strict=True):
                self._rows[_key(tensor)] = row
        for row in dict.fromkeys(rows):
            chosen = [i for i in range(length) if rows[i] is row]

            def part(value: Any, chosen: list[int] = chosen) -> Any:
                if isinstance(value, list | tuple) and len(value) == length:
                    return raw(tuple(value[i] for i in chosen))
                return raw(value)

            yield row, tuple(map(part, args)), tuple((name, part(v)) for name, v in kwargs.items()), part(output)

    def _row_of(self, tensors: Iterable[torch.Tensor]) -> Site:
        """The row of the first tensor that has one."""
        found = (self._rows.get(_key(tensor)) for tensor in tensors)
        return next((row for row in found if row is not None), self._outside)


def _key(tensor: torch.Tensor) -> int:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return internals.storage_key(local) if internals.has_storage(local) else id(local)


def _tensors(values: Any) -> bool:
    return all(isinstance(value, torch.Tensor) for value in values)


_lock = Lock()
_listeners: list[tuple[Callable[[torch.optim.Optimizer], None], Callable[[], None]]] = []
_afterwards: list[Callable[[torch.optim.Optimizer], None]] = []
_hooks: list[Any] = []
_telling = False
"""Whether torch is running our hook just now."""


@contextmanager
def optimizer_steps(begin: Callable[[torch.optim.Optimizer], None], end: Callable[[], None]) -> Iterator[None]:
    """Tell when any optimizer begins and ends its work; who came last hears of the end first.

    A closure that an optimizer calls in its step is the loop's forward and backward, and not told as its work.
    Torch is given one pair of hooks for all of us: it refuses hooks that come or go while a step's hooks run, and a
    window of steps in a script begins and ends exactly then.
    """
    with _listening(_listeners, (begin, end)):
        yield


@contextmanager
def after_optimizer_steps(told: Callable[[torch.optim.Optimizer], None]) -> Iterator[None]:
    """Tell when any optimizer has ended its step, after all who follow its work have heard of it."""
    with _listening(_afterwards, told):
        yield


@contextmanager
def _listening(listeners: list[Any], listener: Any) -> Iterator[None]:
    with _lock:
        if not _hooks:
            _hooks.append(register_optimizer_step_pre_hook(_begin))
            _hooks.append(register_optimizer_step_post_hook(_after))
        listeners.append(listener)
    try:
        yield
    finally:
        with _lock:
            listeners.remove(listener)
        let_go()


def let_go() -> None:
    """Take our hooks off torch where nobody listens any more; not while it runs them, so then somebody has to do it later."""
    with _lock:
        if not (_listeners or _afterwards or _telling):
            while _hooks:
                _hooks.pop().remove()


def _begin(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
    if not _listeners:
        return None
    _tell_begin(optimizer)
    if len(args) > 1 and callable(args[1]):
        return (args[0], _aside(optimizer, args[1]), *args[2:]), kwargs
    if callable(kwargs.get("closure")):
        return args, kwargs | {"closure": _aside(optimizer, kwargs["closure"])}
    return None


def _aside(optimizer: torch.optim.Optimizer, closure: Callable[[], Any]) -> Callable[[], Any]:
    def called() -> Any:
        _end()
        result = closure()
        _tell_begin(optimizer)
        return result

    return called


def _tell_begin(optimizer: torch.optim.Optimizer) -> None:
    for begin, _ in tuple(_listeners):
        begin(optimizer)


def _end() -> None:
    for _, end in tuple(reversed(_listeners)):
        end()


def _after(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    if _listeners:
        _end()
    if _afterwards:
        global _telling  # noqa: PLW0603
        _telling = True
        try:
            for told in tuple(_afterwards):
                told(optimizer)
        finally:
            _telling = False
