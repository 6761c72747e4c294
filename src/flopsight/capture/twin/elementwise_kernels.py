"""Pointwise ops in the memory order that they have on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from ..hooks import internals
from .strides import Strides, iterated_strides, kept_strides, plain_strides

Tensor = torch.Tensor
aten = torch.ops.aten
KEEPS_ORDER = (None, torch.preserve_format)


def restrided(made: Tensor, strides: Strides) -> Tensor:
    """The same without values in another memory order."""
    if made.stride() == strides:
        return made
    return torch.empty_strided(made.shape, strides, dtype=made.dtype, device="meta")


def empty_like(tensor: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A new tensor in the memory order of another."""
    return torch.empty_strided(tensor.shape, kept_strides(tensor), dtype=dtype or tensor.dtype, device="meta")


def like_the_first(func: Any) -> Callable[..., Any]:
    """An op that returns tensors in the memory order of its first argument, unless it is asked for another."""

    def made(first: Tensor, *rest: Any, **options: Any) -> Any:
        output = func(first, *rest, **options)
        if (
            options.get("memory_format") not in KEEPS_ORDER
            or first.layout is not torch.strided
            or options.get("layout") not in (None, torch.strided)
        ):
            return output
        return _ordered(output, kept_strides(first))

    return made


def _ordered(output: Any, strides: Strides) -> Any:
    """One tensor or several, each in this memory order."""
    return (
        restrided(output, strides) if isinstance(output, Tensor) else tuple(restrided(one, strides) for one in output)
    )


def plain(func: Any) -> Callable[..., Tensor]:
    """An op that returns a contiguous tensor."""

    def made(*args: Any, **kwargs: Any) -> Tensor:
        output: Tensor = func(*args, **kwargs)
        return restrided(output, plain_strides(output.shape))

    return made


def pointwise(func: Any, *, casts: bool) -> Callable[..., Any]:
    """An op whose result torch's iterator allocates; `casts` if it copies operands of another precision, as the CPU does."""
    numbers = str(func).rpartition(".")[2] in NUMBERS_ARE_OPERANDS and func not in NUMBERS_ARE_SETTINGS

    def made(*args: Any, **kwargs: Any) -> Any:
        output = func(*args, **kwargs)
        operands = list(_operands(func, args, kwargs, numbers=numbers))
        plain = operands and isinstance(output, Tensor) and all(map(internals.has_storage, [output, *operands]))
        if not plain or internals.storage_key(output) in map(internals.storage_key, operands):
            return output
        if casts:
            operands = _cast(operands, output.dtype)
        return restrided(output, iterated_strides(operands))

    return made


def _operands(func: Any, args: Any, kwargs: Any, *, numbers: bool) -> Iterator[Tensor]:
    """The tensors among the arguments; a number counts as a tensor without dimensions."""
    for at, argument in enumerate(internals.schema(func).arguments):
        value = args[at] if at < len(args) else kwargs.get(argument.name)
        if isinstance(value, Tensor):
            yield value
        elif value is not None and (str(argument.type) == "Tensor" or (numbers and str(argument.type) == "number")):
            yield torch.empty((), dtype=torch.int64 if isinstance(value, int) else torch.float32, device="meta")


def _cast(operands: Sequence[Tensor], returned: torch.dtype) -> list[Tensor]:
    """The operands in a common precision; a condition of yes and no stays as it is."""
    common = operands[0].dtype
    for one in operands[1:]:
        common = torch.promote_types(common, one.dtype)
    if returned.is_floating_point and not common.is_floating_point:
        common = returned
    return [one if one.dtype is common else empty_like(one) for one in operands]


def where(condition: Tensor, one: Any, other: Any) -> Tensor:
    """A choice: the condition is an operand that is never cast."""
    output: Tensor = aten.where.self(condition, one, other)
    return restrided(output, iterated_strides([condition, *_cast([one, other], output.dtype)]))


def data_first(func: Any) -> Callable[..., Tensor]:
    """A gradient, of which the iterator has the data for its first operand."""

    def made(grad: Tensor, data: Tensor, *rest: Any) -> Tensor:
        return restrided(func(grad, data, *rest), iterated_strides([data, grad]))

    return made


def is_infinite(data: Tensor) -> Tensor:
    """A comparison of the absolute value with a number, unless no integer can be infinite."""
    if not data.is_floating_point():
        return empty_like(data, torch.bool)
    return restrided(torch.empty_like(data, dtype=torch.bool), _with_a_number(iterated_strides([data]), data.shape))


def native_dropout_backward(grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    """A product with the mask, and one with a number."""
    output: Tensor = aten.native_dropout_backward.default(grad, mask, scale)
    return restrided(output, _with_a_number(iterated_strides(_cast([grad, mask], output.dtype)), output.shape))


def _with_a_number(strides: Strides, shape: Sequence[int]) -> Strides:
    number = torch.empty((), device="meta")
    return iterated_strides([torch.empty_strided(shape, strides, device="meta"), number])


def like_the_second(func: Any) -> Callable[..., Any]:
    """An op that returns tensors in the memory order of its second argument."""

    def made(*args: Any, **kwargs: Any) -> Any:
        return _ordered(func(*args, **kwargs), kept_strides(args[1]))

    return made


NUMBERS_ARE_OPERANDS = {
    "Scalar", "Tensor_Scalar", "Scalar_Tensor", "Scalar_Self", "Scalar_Other", "x_scalar", "n_scalar", "self_scalar",
    "other_scalar",
}  # fmt: skip
"""Overloads that make a tensor of a number, and iterate over that too."""
NUMBERS_ARE_SETTINGS = {aten.pow.Tensor_Scalar, aten.lerp.Scalar}
LIKE_THE_FIRST = (
    "empty_like.default", "zeros_like.default", "ones_like.default", "full_like.default", "rand_like.default",
    "randn_like.default", "randint_like.default", "randint_like.low_dtype", "clone.default", "_to_copy.default",
    "hardtanh.default", "frexp.Tensor", "nan_to_num.default", "deg2rad.default", "rad2deg.default", "sort.default",
    "sort.stable", "flip.default", "index_fill.int_Scalar", "index_fill.int_Tensor", "index_put.default",
    "_masked_softmax.default", "log_sigmoid_backward.default", "_prelu_kernel.default",
)  # fmt: skip
LIKE_THE_SECOND = (
    "nll_loss2d_backward.default", "nll_loss_backward.default", "binary_cross_entropy_backward.default",
    "_prelu_kernel_backward.default",
)  # fmt: skip
PLAIN = (
    "masked_fill.Scalar", "masked_fill.Tensor", "pow.Scalar", "_softmax.default", "_log_softmax.default",
    "_softmax_backward_data.default", "_log_softmax_backward_data.default", "triu.default", "tril.default",
    "index_add.default", "index_copy.default", "linalg_vector_norm.default", "glu_backward.default", "huber_loss_backward.default", "mse_loss_backward.default",
    "smooth_l1_loss_backward.default", "renorm.default",
)  # fmt: skip
DATA_FIRST = ("threshold_backward.default", "leaky_relu_backward.default")
UNTAGGED = (
    "elu_backward.default", "hardsigmoid_backward.default", "hardswish_backward.default", "hardtanh_backward.default",
    "mish_backward.default", "softplus_backward.default", "hardswish.default", "softshrink_backward.default", "hardshrink_backward.default", "complex.default",
)  # fmt: skip
"""Pointwise ops without the tag."""


def _made(rule: Callable[[Any], Callable[..., Any]], names: Sequence[str]) -> dict[Any, Callable[..., Any]]:
    ops = internals.by_op({f"aten.{name}": None for name in names})
    return {op: rule(op) for op in ops}


KERNELS: dict[Any, Callable[..., Any]] = {
    **_made(like_the_first, LIKE_THE_FIRST),
    **_made(like_the_second, LIKE_THE_SECOND),
    **_made(plain, PLAIN),
    **_made(data_first, DATA_FIRST),
    **_made(partial(pointwise, casts=False), UNTAGGED),
    aten.where.self: where,
    aten.isinf.default: is_infinite,
    aten.native_dropout_backward.default: native_dropout_backward,
}
