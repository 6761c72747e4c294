"""Compiled code, and how it runs as plain Python while we watch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

import torch

from ..shared import Shared
from .modes import without_modes


def bypasses_call(wrapper: Any) -> bool:
    """Whether a wrapper of torch.compile runs its module by the `__call__` that it kept when it was made."""
    return isinstance(getattr(wrapper.forward, "_torchdynamo_orig_callable", None), MethodType)


_compiler_wanted = False
"""Whether the eager stance may import the compiler: only once code is about to be compiled."""


def _set_stance() -> Callable[[], None] | None:
    if not (_compiler_wanted or compiler_imported()):
        return None
    with without_modes():  # this imports the compiler, which runs ops of its own meanwhile, up to 2.8
        stance = torch.compiler.set_stance("force_eager")
    return lambda: stance.__exit__(None, None, None)


_eager: Shared[None] = Shared(_set_stance)
eager_stance = partial(_eager.used_by, None)
"""A context in which code that is compiled already runs as plain Python. The stance is the process's own."""


def compiler_imported() -> bool:
    """Whether anything can have been compiled yet."""
    return "torch._dynamo" in sys.modules


def times_compiled() -> int:
    """How often torch has compiled a piece of code, each time that it did so anew, since it was last reset."""
    counts = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COMPILE_COUNTER", {})
    return sum(counts.values())


def hold_back_compiler() -> None:
    """Inside that context, let what is compiled from now on run as plain Python too."""
    global _compiler_wanted  # noqa: PLW0603
    _compiler_wanted = True
    try:
        _eager.settle()
    finally:
        _compiler_wanted = False


def runs_eager() -> bool:
    """Whether compiled code runs as plain Python because of us."""
    return bool(_eager.users)


class untraced:  # noqa: N801
    """A context in which torch.jit.trace records nothing: it would write down that a shape was read, and name tensors after us."""

    def __enter__(self) -> None:
        self._state = torch._C._get_tracing_state()
        if self._state is not None:
            torch._C._set_tracing_state(None)  # type: ignore[attr-defined]

    def __exit__(self, *problem: object) -> None:
        if self._state is not None:
            torch._C._set_tracing_state(self._state)  # type: ignore[attr-defined]
