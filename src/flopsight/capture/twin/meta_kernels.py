"""Meta kernels of our own, where torch has none or one that disagrees with what a device returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..hooks import internals
from ..hooks.shared import Shared
from . import elementwise_kernels as elementwise
from .convolution import convolution, convolution_backward
from .elementwise_kernels import empty_like, restrided
from .strides import plain_strides

Tensor = torch.Tensor
aten = torch.ops.aten
SINGLE = torch.float32


def layer_norm_backward(*args: Any) -> tuple[Tensor | None, ...]:
    """Gradients in plain order, whatever order the incoming one has.

    Those of weight and bias have their precision; before 2.10 torch gives them that of the data on meta.
    """
    data, *others = aten.native_layer_norm_backward.default(*args)
    owned = (
        one if one is None or owner is None else empty_like(one, owner.dtype)
        for one, owner in zip(others, args[5:7], strict=True)
    )
    return None if data is None else restrided(data, plain_strides(data.shape)), *owned


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


def ctc_loss_backward(_grad: Tensor, log_probs: Tensor, *_rest: Any, **_options: Any) -> Tensor:
    """The gradient of the probabilities."""
    return torch.empty(log_probs.shape, dtype=log_probs.dtype, device="meta")


def mkldnn_rnn_layer_backward(*args: Any) -> tuple[Tensor, ...]:
    """The gradients of the data, of the weights and of the states, each a tensor of its own in single precision."""
    biases = (3, 4)
    shapes = [one.shape[:1] if i in biases else one.shape for i, one in enumerate(args[:7])]
    return tuple(torch.empty(shape, dtype=SINGLE, device="meta") for shape in shapes)


def cudnn_rnn_backward(data: Tensor, weight: list[Tensor], *rest: Any) -> tuple[Any, ...]:
    """The gradients of the data, of the states, and of the weights if they were asked for."""
    _, _, hx, cx, *_, mask = rest
    fresh = [None if one is None else empty_like(one) for one in (data, hx, cx)]
    return *fresh, [empty_like(one) for one in weight] if mask[3] else []


def multi_head_attention(
    query: Tensor, _key: Tensor, _value: Tensor, _width: int, heads: int, _qkv_weight: Tensor, _qkv_bias: Tensor,
    _proj_weight: Tensor, _proj_bias: Tensor, _mask: Tensor | None = None, need_weights: bool = True,
    average: bool = True, _mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The result, and the weights if they are asked for."""
    batch, length, _ = query.shape
    shape = (batch, length, length) if average else (batch, heads, length, length)
    weights = torch.empty(shape, dtype=query.dtype, device="meta") if need_weights else None
    return torch.empty(query.shape, dtype=query.dtype, device="meta"), weights


def _mish_backward(grad: Tensor, data: Tensor) -> Tensor:
    with internals.below_autograd():
        whole: Tensor = aten.mish_backward.default(grad, data)
    return whole


_whole: Shared[None] = Shared(lambda: internals.register_on_meta("mish_backward", _mish_backward))
whole_on_meta = partial(_whole.used_by, None)
"""A context in which ops that fall apart on meta and on no other device stay whole."""


KERNELS: dict[Any, Callable[..., Any]] = elementwise.KERNELS | internals.by_op(
    {
        "aten.convolution.default": convolution,
        "aten.convolution_backward.default": convolution_backward,
        "aten.native_layer_norm_backward.default": layer_norm_backward,
        "aten._transform_bias_rescale_qkv.default": transform_bias_rescale,
        "aten._native_multi_head_attention.default": multi_head_attention,
        "aten._grouped_mm.default": grouped_mm,
        "aten._ctc_loss_backward.Tensor": ctc_loss_backward,
        "aten.mkldnn_rnn_layer_backward.default": mkldnn_rnn_layer_backward,
        "aten._cudnn_rnn_backward.default": cudnn_rnn_backward,
    }
)
