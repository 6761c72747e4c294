"""The strides that torch's kernels on a device choose for what they allocate; its meta kernels choose others.

The difference shows in dimensions of size 1, in expanded operands and where a number is an operand. Later ops go by these
strides: whether a view needs a copy, whether the channels of an image come last.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

Tensor = torch.Tensor
Sizes = Sequence[int]
Strides = tuple[int, ...]


def iterated_strides(operands: Sequence[Tensor]) -> Strides:
    """What TensorIterator gives a result of a pointwise op; the operands come in the order of its inputs."""
    shape = torch.broadcast_shapes(*(one.shape for one in operands))
    if all(one.shape == shape for one in operands):
        if all(one.is_contiguous() for one in operands):
            return plain_strides(shape)
        if len(shape) == 4 and all(one.is_contiguous(memory_format=torch.channels_last) for one in operands):
            return _packed(shape, (1, 3, 2, 0))
        strides = operands[0].stride()
        if all(_dense(one) and one.stride() == strides for one in operands):
            return strides
    order = _inner_to_outer(shape, [_spread(one, shape) for one in operands])
    return plain_strides(shape) if order == [*reversed(range(len(shape)))] else _packed(shape, order)


def kept_strides(tensor: Tensor) -> Strides:
    """What `empty_like`, `clone` and `to` give a new tensor: those of the old one, without its gaps and repetitions."""
    if _dense(tensor):
        return tensor.stride()
    return _packed([max(size, 1) for size in tensor.shape], _inner_to_outer(tensor.shape, [tensor.stride()]))


def plain_strides(shape: Sizes) -> Strides:
    """What a contiguous tensor has."""
    return _packed([max(size, 1) for size in shape], range(len(shape) - 1, -1, -1))


def _inner_to_outer(shape: Sizes, strides: Sequence[Sizes]) -> list[int]:
    """The dimensions by their strides, the smallest first; an insertion sort, because some pairs cannot be compared."""
    order = [*reversed(range(len(shape)))]
    for start in range(1, len(order)):
        at = start
        for before in range(start - 1, -1, -1):
            swap = _compare(order[before], order[at], shape, strides)
            if swap > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif swap < 0:
                break
    return order


def _compare(one: int, other: int, shape: Sizes, strides: Sequence[Sizes]) -> int:
    """Positive if the first dimension belongs outside of the second, negative if inside, 0 if no operand tells."""
    for steps in strides:
        if not steps[one] or not steps[other]:
            continue
        if steps[one] != steps[other]:
            return steps[one] - steps[other]
        if shape[one] > shape[other]:
            return 1
    return 0


def _spread(tensor: Tensor, shape: Sizes) -> list[int]:
    """An operand's strides in the whole shape, 0 in the dimensions that it is repeated in."""
    missing = len(shape) - tensor.dim()
    steps = zip(tensor.shape, tensor.stride(), shape[missing:], strict=True)
    return [0] * missing + [0 if size == 1 != whole else step for size, step, whole in steps]


def _packed(shape: Sizes, inner_to_outer: Sequence[int]) -> Strides:
    strides, step = [0] * len(shape), 1
    for dim in inner_to_outer:
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def _dense(tensor: Tensor) -> bool:
    """Whether the elements fill a block of memory, each once."""
    return bool(torch.ops.aten.is_non_overlapping_and_dense.default(tensor))
