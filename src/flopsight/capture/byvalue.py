"""Ops on meta that need values: results that are Python numbers, shapes that depend on data, choices and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .shadow import Unknowable, contents_of, known, value_of

Tensor = torch.Tensor
Assume = Callable[[str], None]
aten = torch.ops.aten

ZERO = "a value that depends on data was asked for and taken as zero"
BALANCED = "a router on unknown values chooses every expert equally often"
DRAWN = "a random number decides what runs, and it was drawn anew"
FEW = 16
"""Random numbers up to this many are drawn when somebody looks at them: they decide whether a layer is dropped."""


def scalar(func: Any, args: Any, kwargs: Any, assume: Assume) -> Any:
    """A Python number; zero where the value is not known."""
    try:
        return func(*map(value_of, args), **kwargs)
    except Unknowable:
        assume(ZERO)
        return False if func is aten.equal.default or args[0].dtype is torch.bool else 0


def shaped_by_values(func: Any, args: Any, kwargs: Any, _assume: Assume) -> Any:
    """A tensor, or several, whose shape depends on the values of the operands."""
    made = func(*(value_of(value) if isinstance(value, Tensor) else value for value in args), **kwargs)
    return _given(made) if isinstance(made, Tensor) else tuple(map(_given, made))


def masked_select(_func: Any, args: Any, _kwargs: Any, _assume: Assume) -> Tensor:
    """As many elements as the mask lets through; the elements themselves need not be known."""
    tensor, mask = args
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    return torch.empty(int(value_of(mask).expand(shape).sum()), dtype=tensor.dtype, device="meta")


def picked(func: Any, args: Any, kwargs: Any, _assume: Assume) -> Tensor:
    """Indexing; a boolean mask picks as many elements as it has true ones."""
    indices: list[Any] = []
    for index in args[1]:
        if isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
            indices += [_given(column) for column in value_of(index).nonzero().unbind(1)]
        else:
            indices.append(index)
    made: Tensor = func(args[0], indices, **kwargs)
    return made


def packed(func: Any, args: Any, kwargs: Any, _assume: Assume) -> Any:
    """A packed sequence; torch wants the lengths as numbers on the CPU, and so they come back."""
    data, lengths, *rest = args
    return func(data, value_of(lengths), *rest, **kwargs)


def grouped_mm(_func: Any, args: Any, kwargs: Any, _assume: Assume) -> Tensor:
    """Products of groups of rows; torch's own meta kernel takes bfloat16 only."""
    given = dict(zip(("self", "mat2", "offs", "bias", "out_dtype"), args, strict=False)) | kwargs
    left, right = given["self"], given["mat2"]
    ragged = left.dim() + right.dim() == 5
    groups = () if ragged else (left.shape[0] if left.dim() == 3 else given["offs"].shape[0],)
    shape = (*groups, left.shape[-2], right.shape[-1])
    return torch.empty(shape, dtype=given.get("out_dtype") or left.dtype, device="meta")


INSTEAD: dict[Any, Callable[[Any, Any, Any, Assume], Any]] = {
    aten._local_scalar_dense.default: scalar,
    aten.equal.default: scalar,
    aten.nonzero.default: shaped_by_values,
    aten._unique2.default: shaped_by_values,
    aten.unique_dim.default: shaped_by_values,
    aten.unique_consecutive.default: shaped_by_values,
    aten.repeat_interleave.Tensor: shaped_by_values,
    aten.bincount.default: shaped_by_values,
    aten.masked_select.default: masked_select,
    aten.index.Tensor: picked,
    aten._pack_padded_sequence.default: packed,
    aten._grouped_mm.default: grouped_mm,
}
"""What is done in place of an op's meta kernel."""


def chosen(func: Any, args: Any, kwargs: Any, output: Any, assume: Assume) -> None:
    """The largest of unknown values: every choice equally often, beginning in the middle, where no special token sits."""
    names = [argument.name for argument in func._schema.arguments]
    dim = (dict(zip(names, args, strict=False)) | kwargs).get("dim", -1 if func is aten.topk.default else None)
    values, indices = args[0], output if isinstance(output, Tensor) else output[1]
    if contents_of(values) is not None or not values.dim():
        return
    choices = values.numel() if dim is None else values.shape[dim]
    shape = indices.shape

    def balanced() -> Tensor:
        assume(BALANCED)
        made = (torch.arange(shape.numel(), device="cpu") + choices // 2) % max(choices, 1)
        if dim is None or len(shape) != values.dim():
            return made.view(shape)
        return made.view([*shape[: dim % len(shape)], *shape[dim % len(shape) :][1:], shape[dim]]).movedim(-1, dim)

    known(indices, balanced)


def drawn(func: Any, args: Any, kwargs: Any, output: Any, assume: Assume) -> None:
    """A few random numbers, which somebody may look at."""
    if output.numel() > FEW:
        return

    def draw() -> Tensor:
        assume(DRAWN)
        made: Tensor = func(*args, **{**kwargs, "device": torch.device("cpu")})
        return made

    known(output, draw)


AFTER: dict[Any, Callable[[Any, Any, Any, Any, Assume], None]] = {
    aten.topk.default: chosen,
    aten.argmax.default: chosen,
    aten.max.dim: chosen,
    aten.rand.default: drawn,
}
"""What becomes known after an op though its operands are not."""


def _given(value: Tensor) -> Tensor:
    """A meta tensor with a value that is there already."""
    return known(torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta"), lambda: value)
