"""Ops on meta that need values: results that are Python numbers, shapes that depend on data, choices and random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..hooks import internals, parallel
from .known_values import Read, Unknowable, contents_of, forget, value_of, with_value

Tensor = torch.Tensor
Assume = Callable[[str], None]
aten = torch.ops.aten

ZERO = (
    "a value that depends on data was asked for and taken as zero; where a shape or a branch follows from it, "
    "the figures are a lower bound"
)
BALANCED = "a router on unknown values chooses every expert equally often"
ALIKE = "the other ranks' tokens choose experts as those of this rank do"
DRAWN = "a random number decides what runs, and it was drawn anew"
FINITE = "numbers that depend on data are finite"
FEW = 16
"""Random numbers up to this many are drawn when code reads them: they decide whether a layer is dropped."""


def scalar(func: Any, args: Any, kwargs: Any, assume: Assume) -> Any:
    """A Python number; zero if the value is not known and that may be assumed."""
    try:
        return func(*map(value_of, args), **kwargs)
    except Unknowable:
        assume(ZERO)
        return False if func in (aten.equal.default, aten.is_nonzero.default) or args[0].dtype is torch.bool else 0


def shaped_by_values(func: Any, args: Any, kwargs: Any, _assume: Assume) -> Any:
    """A tensor, or several, whose shape depends on the values of the operands."""
    made = func(*(value_of(value) if isinstance(value, Tensor) else value for value in args), **kwargs)
    return _given(made) if isinstance(made, Tensor) else tuple(map(_given, made))


def distinct(func: Any, args: Any, kwargs: Any, assume: Assume) -> Any:
    """As many values as differ; how many that are after a choice of ours says nothing about the model's."""
    contents = contents_of(args[0])
    if contents is not None and contents.assumed:
        raise Unknowable
    return shaped_by_values(func, args, kwargs, assume)


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


def ctc_loss(_func: Any, args: Any, _kwargs: Any, _assume: Assume) -> tuple[Tensor, Tensor]:
    """Losses, and the paths that backward looks at: two for every letter of the longest target, and one."""
    log_probs, _, _, target_lengths = args[:4]
    steps, batch, _ = log_probs.shape
    longest = int(value_of(target_lengths).max())
    options: dict[str, Any] = {"dtype": log_probs.dtype, "device": "meta"}
    return torch.empty(batch, **options), torch.empty(batch, steps, 2 * longest + 1, **options)


INSTEAD: dict[Any, Callable[[Any, Any, Any, Assume], Any]] = internals.by_op(
    {
        "aten._local_scalar_dense.default": scalar,
        "aten.item.default": scalar,  # what arrives in inference mode, where torch takes fewer ops apart
        "aten.is_nonzero.default": scalar,
        "aten.equal.default": scalar,
        "aten.nonzero.default": shaped_by_values,
        "aten.nonzero_numpy.default": shaped_by_values,
        "aten.where.default": shaped_by_values,
        "aten.argwhere.default": shaped_by_values,
        "aten._unique2.default": distinct,
        "aten.unique_dim.default": distinct,
        "aten.unique_consecutive.default": distinct,
        "aten.repeat_interleave.Tensor": shaped_by_values,
        "aten.bincount.default": shaped_by_values,
        "aten.masked_select.default": masked_select,
        "aten.index.Tensor": picked,
        "aten._pack_padded_sequence.default": packed,
        "aten._ctc_loss.Tensor": ctc_loss,
    }
)
"""What is done in place of an op's meta kernel."""


def chosen(func: Any, args: Any, kwargs: Any, output: Any, assume: Assume) -> None:
    """The largest of unknown values: every choice equally often, beginning in the middle, where no special token sits."""
    names = [argument.name for argument in internals.schema(func).arguments]
    dim = (dict(zip(names, args, strict=False)) | kwargs).get("dim", -1 if func is aten.topk.default else None)
    values, indices = args[0], output if isinstance(output, Tensor) else output[1]
    if contents_of(values) is not None or not values.dim():
        return
    choices = values.numel() if dim is None else values.shape[dim]
    shape, alike = indices.shape, indices.dim() == values.dim()

    # Neither operand nor result is held: what waits for a question must not keep a graph alive.
    def balanced() -> Tensor:
        assume(BALANCED)
        made: Tensor = (torch.arange(shape.numel(), device="cpu") + choices // 2) % max(choices, 1)
        if dim is None or not alike:
            return made.view(shape)
        at = dim % len(shape)
        return made.view([*shape[:at], *shape[at + 1 :], shape[at]]).movedim(-1, at)

    with_value(indices, balanced, assumed=True)


def drawn(func: Any, args: Any, kwargs: Any, output: Any, assume: Assume) -> None:
    """A few random numbers, which code may read."""
    if output.numel() > FEW:
        return

    def draw() -> Tensor:
        assume(DRAWN)
        made: Tensor = func(*args, **{**kwargs, "device": torch.device("cpu")})
        return made

    with_value(output, draw)


def finite(func: Any, args: Any, _kwargs: Any, output: Any, assume: Assume) -> None:
    """Is it infinite, is it not a number? Such questions also arrive as comparisons with infinity and with itself."""
    tensor, other = args[0], args[-1]
    itself = len(args) > 1 and other is tensor
    endless = not isinstance(other, Tensor) and other in (math.inf, -math.inf)
    if contents_of(tensor) is not None or not (itself or endless or len(args) == 1):
        return
    shape, equal = output.shape, len(args) > 1 and itself == (func.overloadpacket is aten.eq)

    def answer() -> Tensor:
        assume(FINITE)
        return torch.full(shape, equal, device="cpu")

    with_value(output, answer)


def exchanged(_func: Any, args: Any, _kwargs: Any, _output: Any, assume: Assume) -> None:
    """What the other ranks send, if it is known what this one does: they are taken to be alike, so each sends what this one keeps."""
    received, sent, boxed, *splits = args[:5]
    if contents_of(sent) is None or any(splits):
        forget(received)
        return
    group = parallel.unboxed(boxed)
    place, ways, shape = group.rank(), group.size(), received.shape
    kept = Read(sent)

    def answer() -> Tensor:
        assume(ALIKE)
        return kept.of(kept.contents.elements).reshape(ways, -1)[place].repeat(ways).view(shape)

    with_value(received, answer, assumed=True)


AFTER: dict[Any, Callable[[Any, Any, Any, Any, Assume], None]] = internals.by_op(
    {
        "aten.topk.default": chosen,
        "aten.argmax.default": chosen,
        "aten.max.dim": chosen,
        "c10d.alltoall_base_.default": exchanged,
        "aten.rand.default": drawn,
        "aten.isnan.default": finite,
        "aten.isinf.default": finite,
        "aten.eq.Tensor": finite,
        "aten.ne.Tensor": finite,
        "aten.eq.Scalar": finite,
        "aten.ne.Scalar": finite,
    }
)
"""What becomes known after an op though its operands are not."""


def _given(value: Tensor) -> Tensor:
    """A meta tensor with a value that is there already."""
    return with_value(torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta"), lambda: value)
