"""Hooks for tensors that are saved for backward: which are on, ours above or below others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.utils.checkpoint

from ..release import TORCH
from .tensor_parts import is_wrapper_subclass

saved_hooks_allowed: Callable[[], bool] = torch._C._autograd._saved_tensors_hooks_is_enabled  # type: ignore[attr-defined]
"""Whether saved tensors may have hooks right now; torch.func and `disable_saved_tensors_hooks` forbid it."""

Hooks = tuple[Callable[..., Any], Callable[..., Any]]
"""What packs a tensor that is saved, and what unpacks it."""


class _Noted(threading.local):
    """The hooks of each thread."""

    def __init__(self) -> None:
        self.hooks: list[Hooks] = []


def _note_hooks() -> Callable[[], Hooks | None]:
    """Wrap torch's push and pop, and give the topmost hooks: before 2.8 torch does not say which are on. To go with 2.7.

    The wrappers stay, so that hooks are known which were on before a count begins.
    """
    noted = _Noted()
    push, pop = (
        torch._C._autograd._push_saved_tensors_default_hooks,
        torch._C._autograd._pop_saved_tensors_default_hooks,
    )

    def noting_push(pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        push(pack, unpack)
        noted.hooks.append((pack, unpack))

    def noting_pop() -> None:
        pop()
        del noted.hooks[-1:]

    torch._C._autograd._push_saved_tensors_default_hooks = noting_push  # type: ignore[assignment]
    torch._C._autograd._pop_saved_tensors_default_hooks = noting_pop
    return lambda: noted.hooks[-1] if noted.hooks else None


top_saved_hooks: Callable[[], Hooks | None] = (
    _note_hooks() if TORCH < (2, 8) else partial(torch._C._autograd._top_saved_tensors_default_hooks, True)
)
"""The functions that pack and unpack saved tensors right now."""


@contextmanager
def popped_saved_hooks() -> Iterator[None]:
    """Without the topmost saved-tensor hooks."""
    hooks = top_saved_hooks()
    assert hooks is not None
    torch._C._autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        torch._C._autograd._push_saved_tensors_default_hooks(*hooks)


@contextmanager
def saved_hooks(pack: Callable[..., Any], unpack: Callable[..., Any], *, below: bool = False) -> Iterator[None]:
    """Saved-tensor hooks, on top of others or below them; they go from wherever the others, coming and going, left them.

    If other code popped ours instead of its own, its hooks on top are popped in place of ours, as in `bring_to_top`.
    """
    with without_saved_hooks() if below else nullcontext():
        torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)
    try:
        yield
    finally:
        above = []
        while (top := top_saved_hooks()) is not None:
            torch._C._autograd._pop_saved_tensors_default_hooks()
            if top[0] is pack:
                break
            above.append(top)
        else:
            del above[:1]
        for hooks in reversed(above):
            torch._C._autograd._push_saved_tensors_default_hooks(*hooks)


def entered_with(change: Callable[..., Hooks]) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A wrapper of `saved_tensors_hooks.__enter__` that gives torch the hooks of `change(pack, unpack)`; the object keeps its own."""

    def around(enter: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def entered(hooks: Any) -> Any:
            theirs = hooks.pack_hook, hooks.unpack_hook
            hooks.pack_hook, hooks.unpack_hook = change(*theirs)
            try:
                return enter(hooks)
            finally:
                hooks.pack_hook, hooks.unpack_hook = theirs

        return entered

    return around


_MODES = torch._C.DispatchKeySet(torch._C.DispatchKey.Python).add(torch._C.DispatchKey.PythonTLSSnapshot)


def detached(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor apart from its graph, made without a word to any mode."""
    if is_wrapper_subclass(tensor):
        return tensor.detach()
    with torch._C._ExcludeDispatchKeyGuard(_MODES):
        return tensor.detach()


CheckpointFrame = torch.utils.checkpoint._CheckpointFrame
"""What a checkpoint without reentrance knows of its function; `metadata_fn` compares what is saved with what is made again."""


def in_checkpoint() -> bool:
    """Whether a checkpoint without reentrance is running its function: it packs saved tensors to drop them."""
    hooks = top_saved_hooks()
    return hooks is not None and "checkpoint" in getattr(hooks[0], "__module__", "")


@contextmanager
def without_saved_hooks() -> Iterator[None]:
    """Without saved-tensor hooks: no hook sees what is saved inside the block."""
    with ExitStack() as stack:
        while top_saved_hooks() is not None:
            stack.enter_context(popped_saved_hooks())
        yield
