"""Ops that take functions: branches and loops are counted by what their functions do when they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    return isinstance(func, internals.HigherOrderOperator)


def entering(args: Any, enter: Callable[[Call], Call]) -> Any:
    """The arguments of such an op, every function among them run inside `enter`."""
    return with_leaves(args, lambda leaf: enter(leaf) if callable(leaf) else leaf)


def in_python(call: Call, mode: type[internals.TorchDispatchMode]) -> Call:
    """Run branches and loops as the plain Python that they are; other ops go to our mode.

    Torch compiles torch.cond and its like wherever they are called, to find the weights that their functions use. Under a
    dispatch mode it does not, and such weights would get no gradient.
    """

    def called(op: Any, *args: Any, **kwargs: Any) -> Any:
        plain = IN_PYTHON.get((op.name(), len(args)))
        # from torch 2.15 on map comes with `mutated_arg_indices`, which is empty if nothing is changed in place
        if plain is None or any(kwargs.values()) or internals.transformed():
            internals.offer_to_mode(op, mode)
            return call(op, *args, **kwargs)
        return plain(*args)

    return called


def _cond(chosen: Any, if_true: Call, if_false: Call, operands: Sequence[Any]) -> Any:
    return (if_true if chosen else if_false)(*operands)


def _while_loop(goes_on: Call, body: Call, carried: Sequence[Any], beside: Sequence[Any]) -> Any:
    while goes_on(*carried, *beside):
        carried = tuple(body(*carried, *beside))
    return tuple(carried)


def _scan(combine: Call, carried: Sequence[Any], rows: Sequence[torch.Tensor], beside: Sequence[Any]) -> Any:
    number, made = len(carried), []
    for i in range(rows[0].shape[0]):
        carried = combine(*carried, *(each.select(0, i) for each in rows), *beside)
        made.append(tuple(carried[number:]))
        carried = carried[:number]
    return *carried, *internals.stacked(made)


def _map(function: Call, rows: Sequence[torch.Tensor], beside: Sequence[Any]) -> Any:
    return internals.stacked([function(*row, *beside) for row in zip(*(each.unbind(0) for each in rows), strict=True)])


IN_PYTHON: dict[tuple[str, int], Call] = {
    ("cond", 4): _cond,
    ("while_loop", 4): _while_loop,
    ("scan", 4): _scan,
    ("map_impl", 3): _map,
}
"""By the name of an op and the number of its arguments: what it means."""
