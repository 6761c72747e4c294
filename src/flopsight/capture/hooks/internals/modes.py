"""Dispatch modes and function modes: which are on, and how one of ours leaves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode,
    _pop_mode,
    _push_mode,
)

from ..release import TORCH

TorchDispatchMode = torch.utils._python_dispatch.TorchDispatchMode
"""What sees every op of its thread."""
dispatch_depth: Callable[[], int] = torch._C._len_torch_dispatch_stack
"""How many dispatch modes are on this thread."""
without_functions = torch._C.DisableTorchFunction
"""A context in which no function mode sees anything."""
function_modes: Callable[[], int] = torch._C._len_torch_function_stack
"""How many function modes are on here; autograd's engine begins with none."""
_FAKE = torch._C._TorchDispatchModeKey.FAKE
tracing_shapes: Callable[[], object] = partial(torch._C._get_dispatch_mode, _FAKE)
"""The FakeTensorMode that is on, else None: torch works out shapes under it, and what runs is not the model's work."""
_PROXY = torch._C._TorchDispatchModeKey.PROXY
_transforms: Callable[[], object] = torch._C._functorch.peek_interpreter_stack


def transformed() -> bool:
    """Whether torch traces what runs, or torch.func transforms it: it then has its own rules for branches."""
    if tracing_shapes() or torch._C._get_dispatch_mode(_PROXY) is not None:
        return True
    return _transforms() is not None


def derived() -> bool:
    """Whether torch.func transforms what runs, or derivatives are made with it in forward mode."""
    return _transforms() is not None or forward_ad._current_level >= 0


def offer_to_mode(op: Any, mode: type[TorchDispatchMode]) -> None:
    """Have an op that takes functions go to our mode as every op does: torch asks for a rule before 2.9. To go with 2.8."""
    if TORCH < (2, 9):
        op.python_key_table.setdefault(mode, lambda on, *args, **kwargs: on.__torch_dispatch__(op, (), args, kwargs))


@contextmanager
def modes_held() -> Iterator[None]:
    """Keep every dispatch mode of this thread alive while some are popped.

    Up to 2.10 torch frees a mode before it returns it from the stack, if nothing but the stack refers to it: whoever
    uses it afterwards crashes the interpreter. A mode that is left out of order is such a one. To go with 2.10.
    """
    held = [torch._C._get_dispatch_stack_at(i) for i in range(dispatch_depth())]
    try:
        yield
    finally:
        held.clear()


@contextmanager
def without_modes() -> Iterator[None]:
    """A context in which no dispatch mode sees anything."""
    with modes_held(), _disable_current_modes():
        yield


def equal_constants(one: Any, other: Any) -> bool:
    """Whether two constants are equal that TorchScript compares as it optimizes, which hands a number over as an int."""
    with without_modes():
        return torch.equal(torch.as_tensor(one), torch.as_tensor(other))


def bring_to_top(mode: TorchDispatchMode) -> bool:
    """Move our mode to the top of the stack so that it can be popped; False if it is no longer on the stack.

    Other code popped it instead of its own mode; that mode is on top now, and is popped in place of ours.
    """
    if _get_current_dispatch_mode() is mode:
        return True
    above: list[TorchDispatchMode] = []
    with modes_held():
        while dispatch_depth():
            above.append(_pop_mode())
            if above[-1] is mode:
                break
    found = bool(above) and above[-1] is mode
    for other in reversed(above[:-1] if found else above):
        _push_mode(other)
    if found or not above:
        _push_mode(mode)
    return found


_MODE_FLAGS = (
    "_is_in_torch_dispatch_mode",
    "_is_in_non_infra_torch_dispatch_mode",
    "_is_in_any_mode_without_ignore_compile_internals",
)


_left: deque[TorchDispatchMode] = deque(maxlen=64)
"""Modes that were on when a count ended in an exception, the last ones."""


def hold_left_modes() -> None:
    """Keep the modes that a model which raised may have left on: they are popped later, in any order. To go with 2.10.

    A selective checkpoint leaves its mode on until the exception is freed; see `modes_held` for what torch does then.
    """
    if TORCH < (2, 11):
        _left.extend(torch._C._get_dispatch_stack_at(i) for i in range(dispatch_depth()))


def settle_mode_flags() -> None:
    """Reset the flags in which torch notes that a mode is on: modes that leave in another order leave them set."""
    if not dispatch_depth():
        for name in _MODE_FLAGS:
            if hasattr(_python_dispatch, name):
                setattr(_python_dispatch, name, False)
