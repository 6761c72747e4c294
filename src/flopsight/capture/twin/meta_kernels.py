"""Meta kernels of our own, where torch has none or one that disagrees with what a device returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch

from ..hooks import internals
from ..hooks.shared import Shared
from ..model.tensors import flat

Tensor = torch.Tensor
aten = torch.ops.aten
CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)
HALVES = {torch.float16, torch.bfloat16}
SINGLE = torch.float32


def convolution(*args: Any) -> Tensor:
    """A result with its channels last where the input's or the weight's are; torch's kernel does not know the device."""
    return _in_order(aten.convolution.default(*args), _order(*args[:2]))


def convolution_backward(*args: Any) -> tuple[Tensor | None, ...]:
    """Gradients in the same order as the forward's result."""
    data, weight, bias = aten.convolution_backward.default(*args)
    order = _order(*args[1:3])
    return *(None if one is None else _in_order(one, order) for one in (data, weight)), bias


def _in_order(made: Tensor, order: torch.memory_format) -> Tensor:
    return torch.empty(made.shape, dtype=made.dtype, device="meta", memory_format=order)


def _order(data: Tensor, weight: Tensor) -> torch.memory_format:
    orders = [internals.memory_order(tensor) for tensor in (data, weight)]
    return next((order for order in orders if order in CHANNELS_LAST), torch.contiguous_format)


def like_a_product(*args: Any, **_options: Any) -> Tensor:
    """A gradient in the memory order of the incoming one, as that of any product with it."""
    grad, other = (value for value in args if isinstance(value, Tensor))
    made: Tensor = aten.mul.Tensor(grad, other)
    return made


def like_the_gradient(grad: Tensor, *_rest: Any) -> Tensor:
    """A gradient in the memory order of the incoming one, whatever the others have."""
    return torch.empty_like(grad)


def in_plain_order(_grad: Tensor, data: Tensor, *_rest: Any) -> Tensor:
    """The gradient of the data, in plain order."""
    return torch.empty(data.shape, dtype=data.dtype, device="meta")


def spread(tensors: Iterable[Tensor]) -> bool:
    """Whether an operand in half precision is one number spread over a shape, as the gradient of a sum is."""
    return any(one.dtype in HALVES and one.numel() > 1 and 0 in one.stride() for one in tensors)


def by_single_precision(func: Any, args: Any, kwargs: Any) -> Any:
    """What a pointwise op returns, asked with single precision: for halves torch's meta kernels take another memory order."""
    made = func(*_changed(args), **_changed(kwargs))
    halves = {one.dtype for one in flat((args, kwargs))} & HALVES
    if not isinstance(made, Tensor) or len(halves) != 1 or any(one.dtype is SINGLE for one in flat((args, kwargs))):
        return func(*args, **kwargs)
    dtype = halves.pop() if made.dtype is SINGLE else made.dtype
    return torch.empty_strided(made.shape, made.stride(), dtype=dtype, device="meta")


def _changed(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype in HALVES:
        return torch.empty_strided(value.shape, value.stride(), dtype=SINGLE, device="meta")
    if isinstance(value, list | tuple):
        return type(value)(map(_changed, value))
    return {key: _changed(item) for key, item in value.items()} if isinstance(value, dict) else value


def layer_norm_backward(*args: Any) -> tuple[Tensor | None, ...]:
    """Gradients in plain order, whatever order the incoming one has.

    Those of weight and bias have their precision; before 2.10 torch gives them that of the data on meta.
    """
    data, *others = aten.native_layer_norm_backward.default(*args)
    owned = (
        one if one is None or owner is None else torch.empty_like(one, dtype=owner.dtype)
        for one, owner in zip(others, args[5:7], strict=True)
    )
    return None if data is None else data.contiguous(), *owned


def softmax_backward(_grad: Tensor, output: Tensor, _dim: int, dtype: torch.dtype) -> Tensor:
    """The same."""
    return torch.empty(output.shape, dtype=dtype, device="meta")


def grouped_mm(
    left: Tensor, right: Tensor, offs: Tensor | None = None, _bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """Products of groups of rows; torch's kernel takes bfloat16 only."""
    shape = [left.shape[-2], right.shape[-1]]
    if left.dim() + right.dim() != 5:
        shape.insert(0, left.shape[0] if left.dim() == 3 or offs is None else offs.shape[0])
    return torch.empty(shape, dtype=out_dtype or left.dtype, device="meta")


def transform_bias_rescale(qkv: Tensor, _bias: Tensor, heads: int) -> tuple[Tensor, ...]:
    """Queries, keys and values by heads, three parts of one tensor."""
    batch, length, width = qkv.shape
    whole = torch.empty((3, batch, heads, length, width // 3 // heads), dtype=qkv.dtype, device="meta")
    return whole.unbind(0)


def masked_softmax(scores: Tensor, *_rest: Any) -> Tensor:
    """As many as there are scores."""
    return torch.empty_like(scores)


def ctc_loss_backward(_grad: Tensor, log_probs: Tensor, *_rest: Any, **_options: Any) -> Tensor:
    """The gradient of the probabilities."""
    return torch.empty(log_probs.shape, dtype=log_probs.dtype, device="meta")


def mkldnn_rnn_layer_backward(*args: Any) -> tuple[Tensor, ...]:
    """The gradients of the data, of the weights and of the states, each a tensor of its own in single precision."""
    biases = (3, 4)
    shapes = [one.shape[:1] if i in biases else one.shape for i, one in enumerate(args[:7])]
    return tuple(torch.empty(shape, dtype=SINGLE, device="meta") for shape in shapes)


def cudnn_rnn_backward(data: Tensor, weight: list[Tensor], *rest: Any) -> tuple[Any, ...]:
    """The gradients of the data, of the states, and of the weights where they were asked for."""
    _, _, hx, cx, *_, mask = rest
    fresh = [None if one is None else torch.empty_like(one) for one in (data, hx, cx)]
    return *fresh, [torch.empty_like(one) for one in weight] if mask[3] else []


def multi_head_attention(
    query: Tensor, _key: Tensor, _value: Tensor, _width: int, heads: int, _qkv_weight: Tensor, _qkv_bias: Tensor,
    _proj_weight: Tensor, _proj_bias: Tensor, _mask: Tensor | None = None, need_weights: bool = True,
    average: bool = True, _mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The result, and the weights where they are asked for."""
    batch, length, _ = query.shape
    shape = (batch, length, length) if average else (batch, heads, length, length)
    weights = torch.empty(shape, dtype=query.dtype, device="meta") if need_weights else None
    return torch.empty(query.shape, dtype=query.dtype, device="meta"), weights


def _mish_backward(grad: Tensor, data: Tensor) -> Tensor:
    with internals.below_autograd():
        whole: Tensor = aten.mish_backward.default(grad, data)
    return whole


def _register() -> Callable[[], None]:
    """Registered once for all users: torch warns on a second registration."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("mish_backward", _mish_backward, "AutogradMeta")
    return internals.unregister(library)


_whole: Shared[object] = Shared(_register)


def whole_on_meta() -> AbstractContextManager[None]:
    """Inside the block, ops that fall apart on meta and on no other device stay whole."""
    return _whole.used_by(object())


KERNELS: dict[Any, Callable[..., Any]] = internals.by_op(
    {
        "aten.convolution.default": convolution,
        "aten.convolution_backward.default": convolution_backward,
        "aten.native_layer_norm_backward.default": layer_norm_backward,
        "aten._softmax_backward_data.default": softmax_backward,
        "aten._log_softmax_backward_data.default": softmax_backward,
        "aten.elu_backward.default": like_a_product,
        "aten.hardsigmoid_backward.default": like_a_product,
        "aten.hardswish_backward.default": like_a_product,
        "aten.hardtanh_backward.default": like_a_product,
        "aten.mish_backward.default": like_a_product,
        "aten.softplus_backward.default": like_a_product,
        "aten.log_sigmoid_backward.default": like_the_gradient,
        "aten.glu_backward.default": in_plain_order,
        "aten.huber_loss_backward.default": in_plain_order,
        "aten.mse_loss_backward.default": in_plain_order,
        "aten.smooth_l1_loss_backward.default": in_plain_order,
        "aten._transform_bias_rescale_qkv.default": transform_bias_rescale,
        "aten._masked_softmax.default": masked_softmax,
        "aten._native_multi_head_attention.default": multi_head_attention,
        "aten._grouped_mm.default": grouped_mm,
        "aten._ctc_loss_backward.Tensor": ctc_loss_backward,
        "aten.mkldnn_rnn_layer_backward.default": mkldnn_rnn_layer_backward,
        "aten._cudnn_rnn_backward.default": cudnn_rnn_backward,
    }
)
