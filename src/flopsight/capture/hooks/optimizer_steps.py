"""When any optimizer begins and ends its step: one pair of torch hooks for all listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

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
