"""What a call of a model is called with, without the values: calls with equal signatures do equal work."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, cast

import torch

from ...capture.model.tensors import tensors_in

VALUES = frozenset((bool, int, str, type(None), torch.dtype, torch.device))
"""Arguments that may steer the work by their value; a float is a rate or a scale, and does not."""
LENGTHS = ("seqlens", "seq_lens", "lengths", "offsets")
"""Names of arguments that say how a packed batch is divided, whose values decide how much attention it takes."""
MOST_LENGTHS = 4096
LONG = 64
"""Elements from which on a list is described by its length."""


def signature(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """Shapes, dtypes and plain values of a call's arguments."""
    if not kwargs:
        return tuple([part(value) for value in args])
    named = tuple(
        [(name, _lengths(value) if name.endswith(LENGTHS) else part(value)) for name, value in kwargs.items()]
    )
    return (tuple([part(value) for value in args]), named)


def part(value: Any) -> Hashable:
    """One argument without its values."""
    kind = type(value)
    if kind is torch.Tensor:
        return _tensor(value)
    if kind in VALUES:
        return (kind, value)
    if isinstance(value, torch.Tensor):
        return (kind, _tensor(value))
    if isinstance(value, list | tuple):
        return (kind, len(value)) if len(value) > LONG else (kind, *[part(item) for item in value])
    if isinstance(value, Mapping):
        return tuple([(str(name), part(item)) for name, item in value.items()])
    return (kind, *[_tensor(tensor) for tensor in tensors_in(value)])


def _tensor(tensor: torch.Tensor) -> Hashable:
    if tensor.is_nested:  # its shape has no number for the lengths
        return ("nested", *_row_lengths(tensor), tensor.dtype, tensor.requires_grad)
    return (tensor.shape, tensor.dtype, tensor.requires_grad)


def _row_lengths(nested: torch.Tensor) -> tuple[Any, ...]:
    if nested.is_cpu and nested.layout is torch.jagged:
        return (str(nested.shape[1:]), *cast("Any", nested).offsets().tolist())
    return (nested.numel(),)


def _lengths(value: Any) -> Hashable:
    """The values of a short tensor of lengths; one on a device is not read, since that would wait for it."""
    readable = isinstance(value, torch.Tensor) and value.is_cpu and value.dim() == 1 and value.numel() <= MOST_LENGTHS
    return (part(value), *value.tolist()) if readable else part(value)
