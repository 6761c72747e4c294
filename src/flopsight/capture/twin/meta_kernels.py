"""Meta kernels of our own, where torch has none or one that disagrees with what a device returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..hooks import internals

Tensor = torch.Tensor
aten = torch.ops.aten
CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)


def convolution(*args: Any) -> Tensor:
    """A result with its channels last where the input's or the weight's are; torch's kernel does not know the device."""
    made: Tensor = aten.convolution.default(*args)
    return made.contiguous(memory_format=_order(*args[:2]))


def convolution_backward(*args: Any) -> tuple[Tensor | None, ...]:
    """Gradients in the same order as the forward's result."""
    data, weight, bias = aten.convolution_backward.default(*args)
    order = _order(*args[1:3])
    return *(None if one is None else one.contiguous(memory_format=order) for one in (data, weight)), bias


def _order(data: Tensor, weight: Tensor) -> torch.memory_format:
    orders = [internals.memory_order(tensor) for tensor in (data, weight)]
    return next((order for order in orders if order in CHANNELS_LAST), torch.contiguous_format)


def layer_norm_backward(*args: Any) -> tuple[Tensor | None, ...]:
    """Gradients in plain order, whatever order the incoming one has."""
    data, *others = aten.native_layer_norm_backward.default(*args)
    return None if data is None else data.contiguous(), *others


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


def ctc_loss_backward(_grad: Tensor, log_probs: Tensor, *_rest: Any, **_options: Any) -> Tensor:
    """The gradient of the probabilities."""
    return torch.empty(log_probs.shape, dtype=log_probs.dtype, device="meta")


def mkldnn_rnn_layer_backward(*args: Any) -> tuple[Tensor, ...]:
    """The gradients of the data, of the weights and of the states, each a tensor of its own."""
    return tuple(torch.empty_like(one) for one in args[:7])


def cudnn_rnn_backward(data: Tensor, weight: list[Tensor], *rest: Any) -> tuple[Any, ...]:
    """The gradients of the data, of the states, and of the weights where they were asked for."""
    _, _, hx, cx, *_, mask = rest
    fresh = [None if one is None else torch.empty_like(one) for one in (data, hx, cx)]
    return *fresh, [torch.empty_like(one) for one in weight] if mask[3] else []


KERNELS: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: convolution,
    aten.convolution_backward.default: convolution_backward,
    aten.native_layer_norm_backward.default: layer_norm_backward,
    aten._softmax_backward_data.default: softmax_backward,
    aten._log_softmax_backward_data.default: softmax_backward,
    aten._grouped_mm.default: grouped_mm,
    aten._ctc_loss_backward.Tensor: ctc_loss_backward,
    aten.mkldnn_rnn_layer_backward.default: mkldnn_rnn_layer_backward,
    aten._cudnn_rnn_backward.default: cudnn_rnn_backward,
}
