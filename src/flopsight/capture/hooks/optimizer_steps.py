"""When any optimizer begins and ends its step: one pair of torch hooks for all listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from threading import get_ident
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .shared import Shared

Begin = Callable[[torch.optim.Optimizer], None]


@dataclass(frozen=True, eq=False)
class _Listener:
    begin: Begin | None = None
    end: Callable[[], None] | None = None
    afterwards: Begin | None = None


_beginning = attrgetter("begin")
_unheard: set[tuple[int, _Listener]] = set()
"""Threads on which we make steps of our own, each with the listeners that are muted there meanwhile."""
_outer: torch.optim.Optimizer | None = None
"""The optimizer that steps now, or whose step raised: those that it holds do part of its work."""
_running_hooks = False
"""Whether torch runs our post hook at the moment: it refuses that hooks are removed meanwhile."""


def _install() -> Callable[[], None]:
    hooks = [register_optimizer_step_pre_hook(_begin), register_optimizer_step_post_hook(_after)]

    def remove() -> None:
        for hook in hooks:
            hook.remove()

    return remove


_hooks: Shared[_Listener] = Shared(_install, may_remove=lambda: not _running_hooks)


def optimizer_steps(begin: Begin, end: Callable[[], None]) -> AbstractContextManager[None]:
    """Call `begin` and `end` around the work of every optimizer; the last listener is called first at the end.

    A closure that an optimizer calls in its step is the loop's forward and backward, and not the optimizer's work.
    Torch gets one pair of hooks for all listeners: it refuses hooks that are added or removed while a step's hooks run,
    and a window of steps in a script begins and ends exactly then.
    """
    return _hooks.used_by(_Listener(begin, end))


def after_optimizer_steps(afterwards: Begin) -> AbstractContextManager[None]:
    """Call `afterwards` when any optimizer has ended its step and every `end` was called."""
    return _hooks.used_by(_Listener(afterwards=afterwards))


@contextmanager
def steps_unheard() -> Iterator[None]:
    """Mute the current listeners for the steps that this thread makes inside the block."""
    hidden = {(get_ident(), listener) for listener in _hooks.users} - _unheard
    _unheard.update(hidden)
    try:
        yield
    finally:
        _unheard.difference_update(hidden)


def _listeners() -> list[_Listener]:
    """The listeners that are not muted; a copy, since one may come or go meanwhile."""
    if not _unheard:
        return _hooks.users[:]
    thread = get_ident()
    return [listener for listener in _hooks.users if (thread, listener) not in _unheard]


def with_inner(optimizer: torch.optim.Optimizer) -> list[torch.optim.Optimizer]:
    """An optimizer and those that it holds and steps, as torch's ZeroRedundancyOptimizer does."""
    return [optimizer, *(value for value in vars(optimizer).values() if isinstance(value, torch.optim.Optimizer))]


def let_go() -> None:
    """Remove hooks without listeners, if that was put off because torch was running them."""
    _hooks.settle()


def _is_inner(optimizer: torch.optim.Optimizer) -> bool:
    if _outer is None or _outer is optimizer:
        return False
    return any(held is optimizer for held in with_inner(_outer)[1:])


def _begin(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
    global _outer  # noqa: PLW0603
    if _outer is not None and _is_inner(optimizer):
        return None
    _outer = optimizer
    if not any(map(_beginning, _hooks.users)) or not _call_begins(optimizer):
        return None
    if len(args) > 1 and callable(args[1]):
        return (args[0], _aside(optimizer, args[1]), *args[2:]), kwargs
    if callable(kwargs.get("closure")):
        return args, kwargs | {"closure": _aside(optimizer, kwargs["closure"])}
    return None


def _aside(optimizer: torch.optim.Optimizer, closure: Callable[[], Any]) -> Callable[[], Any]:
    def called() -> Any:
        _call_ends()
        result = closure()
        _call_begins(optimizer)
        return result

    return called


def _call_begins(optimizer: torch.optim.Optimizer) -> bool:
    """Call every listener's `begin`; False if there is none."""
    begins = [listener.begin for listener in _listeners() if listener.begin is not None]
    for begin in begins:
        begin(optimizer)
    return bool(begins)


def _call_ends() -> list[_Listener]:
    """Call every listener's `end`; gives all listeners."""
    listeners = _listeners() if _unheard else _hooks.users[:]
    for listener in reversed(listeners):
        if listener.end is not None:
            listener.end()
    return listeners


def _after(optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
    global _running_hooks, _outer  # noqa: PLW0603
    if _outer is not optimizer and _is_inner(optimizer):
        return
    _outer = None
    listeners = _call_ends()
    _running_hooks = True
    try:
        for listener in listeners:
            if listener.afterwards is not None:
                listener.afterwards(optimizer)
    finally:
        _running_hooks = False
