"""Ops that take functions: branches and loops are counted by what their functions do when they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..hooks import internals
from ..hooks.patches import Call
from ..model.tensors import with_leaves

TAKEN_APART = frozenset(
    f"higher_order.{name}" for name in ("cond", "while_loop", "scan", "map_impl", "associative_scan")
)
"""Ops that call their functions as often as they run: the branch that was taken, every trip of a loop."""


def is_higher_order(func: Any) -> bool:
    """Whether an op takes functions."""
    return isinstance(func, torch._ops.HigherOrderOperator)


def entering(args: Any, enter: Callable[[Call], Call]) -> Any:
    """The arguments of such an op, every function among them run inside `enter`."""
    return with_leaves(args, lambda leaf: enter(leaf) if callable(leaf) else leaf)


def branches_in_python(call: Call, mode: type[internals.TorchDispatchMode]) -> Call:
    """Run a branch of torch.cond as the plain Python that it is; other ops go to our mode.

    Torch compiles torch.cond wherever it is called, to find the weights that its branches use. Under a dispatch mode it
    does not, and such weights would get no gradient.
    """

    def called(op: Any, *args: Any, **kwargs: Any) -> Any:
        if op.name() != "cond" or kwargs or len(args) != 4 or internals.transformed():
            internals.offer_to_mode(op, mode)
            return call(op, *args, **kwargs)
        chosen, if_true, if_false, operands = args
        return (if_true if chosen else if_false)(*operands)

    return called
