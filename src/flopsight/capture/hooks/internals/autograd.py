"""Autograd's nodes, numbers and versions, and tensors that get their values back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, methodcaller
from typing import Any

import torch

from ..release import TORCH
from .tensor_parts import signs

graph_task: Callable[[], int] = torch._C._current_graph_task_id
"""The running backward's number, -1 outside backward."""
sequence_number: Callable[[], int] = torch._C._autograd._get_sequence_nr
"""The number that the next autograd node made on this thread will get."""
current_node: Callable[[], Any] = torch._C._current_autograd_node
"""The autograd node that backward is running, or None."""
below_autograd = torch._C._AutoDispatchBelowAutograd
"""A context in which an op goes past autograd: one that autograd would take apart reaches the modes whole."""
NO_SEQUENCE = 1 << 62
"""AccumulateGrad nodes carry a number above every real one."""


node_sequence: Callable[[Any], int] = methodcaller("_sequence_nr")
"""When an autograd node was made, in its thread's numbering."""


def gradient_shapes(node: Any) -> tuple[tuple[int, ...] | None, ...]:
    """The shapes of the gradients that an autograd node gets; None for a nested one, which has no shape."""
    return tuple([None if one.is_nested_tensor else tuple(one.shape) for one in node._input_metadata])


WINDOWS = ("_saved_stride", "_saved_padding", "_saved_dilation", "_saved_groups")


def windows(node: Any) -> tuple[Any, ...]:
    """How the windows of a convolution move, by its autograd node; of any other node None four times."""
    return tuple([getattr(node, name, None) for name in WINDOWS])


viewed: Callable[[torch.Tensor], torch.Tensor | None] = attrgetter("_base")
"""The tensor that a view is a view of."""
is_view: Callable[[torch.Tensor], bool] = methodcaller("_is_view")
"""Whether autograd knows a tensor as a view of another."""


def version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was written into, as autograd counts; None for tensors made in inference mode."""
    return None if tensor.is_inference() else tensor._version


Noted = tuple[torch.Tensor, torch.Tensor, int | None]
"""A tensor, a copy of the values that it had, and the version that it had."""


def put_back(noted: Sequence[Noted]) -> None:
    """Write into tensors the values that they had, all at once if torch can, else one by one."""
    tracked = [(tensor, value) for tensor, value, number in noted if number is not None]
    alone = any(tensor.is_nested or any(signs(tensor)) for tensor, _ in tracked)  # for these torch has no such kernel
    if tracked and not alone:
        tensors, values = zip(*tracked, strict=True)
        with torch.no_grad():
            torch._foreach_copy_(tensors, values)
    else:
        put_each_back([(tensor, value, 0) for tensor, value in tracked])
    put_each_back([(tensor, value, None) for tensor, value, number in noted if number is None])
    set_versions([(tensor, number) for tensor, _, number in noted])


def put_each_back(noted: Sequence[Noted]) -> None:
    """The same one by one; a tensor made in inference mode, which has no version, is written in that mode."""
    for tensor, value, number in noted:
        with torch.inference_mode() if number is None else torch.no_grad():
            tensor.copy_(value)


def set_versions(numbers: Sequence[tuple[torch.Tensor, int | None]]) -> None:
    """Give tensors the versions that they had, so that graphs which saved them may go on."""
    known = [(tensor, number) for tensor, number in numbers if number is not None]
    if known and TORCH >= (2, 7):
        torch._C._autograd._unsafe_set_version_counter(*zip(*known, strict=True))
    elif known:  # one by one, to go with 2.6
        for one in known:
            torch._C._autograd._unsafe_set_version_counter(*one)  # type: ignore[arg-type]
