"""Convolutions in the memory order that they have on a device; torch's meta kernels do not know which one that is."""

from __future__ import annotations

from typing import Any

import torch

from ..hooks import internals
from .elementwise_kernels import restrided
from .strides import plain_strides

Tensor = torch.Tensor
aten = torch.ops.aten
PLAIN = torch.contiguous_format


def convolution(*args: Any) -> Tensor:
    """A result with its channels last if the input's or the weight's are."""
    return _in_order(aten.convolution.default(*args), _order(*args[:2]))


def convolution_on_cpu(*args: Any) -> Tensor:
    """The same, unless volumes do not go to oneDNN."""
    onednn = internals.onednn_convolves(args[0], args[1], args[3:])
    return _in_order(aten.convolution.default(*args), _order_on_cpu(*args[:2], onednn=onednn))


def convolution_backward(*args: Any) -> tuple[Tensor | None, ...]:
    """Gradients in the same order as the forward's result."""
    data, weight, bias = aten.convolution_backward.default(*args)
    order = _order(*args[1:3])
    return *(None if one is None else _in_order(one, order) for one in (data, weight)), bias


def convolution_backward_on_cpu(*args: Any) -> tuple[Tensor | None, ...]:
    """The same; oneDNN works out the weight's gradient together with the bias's, asked for or not."""
    *given, (for_data, for_weight, for_bias) = args
    onednn = internals.onednn_convolves(given[1], given[2], given[4:])
    order = _order_on_cpu(*given[1:3], onednn=onednn)
    mask = [for_data, for_weight or (onednn and for_bias), for_bias]
    data, weight, bias = aten.convolution_backward.default(*given, mask)
    if weight is not None:
        weight = _in_order(weight, order) if onednn else _copied_into(weight, order)
    return None if data is None else _in_order(data, order), weight, bias


def _in_order(made: Tensor, order: torch.memory_format) -> Tensor:
    if made.dim() == 3:  # torch makes an image of height 1 of it
        return _in_order(made.unsqueeze(2), order).squeeze(2)
    return torch.empty(made.shape, dtype=made.dtype, device="meta", memory_format=order)


def _copied_into(made: Tensor, order: torch.memory_format) -> Tensor:
    """A plain tensor, copied into another order unless it has both, as a kernel of size 1 has."""
    if made.dim() == 3:
        return _copied_into(made.unsqueeze(2), order).squeeze(2)
    return restrided(made, plain_strides(made.shape)).contiguous(memory_format=order)


def _order(data: Tensor, weight: Tensor) -> torch.memory_format:
    """Channels last if either has them there."""
    if data.dim() == 3:
        data, weight = data.contiguous().unsqueeze(2), weight.unsqueeze(2)
    orders = [internals.memory_order(tensor) for tensor in (data, weight)]
    return next((order for order in orders if order is not PLAIN), PLAIN)


def _order_on_cpu(data: Tensor, weight: Tensor, *, onednn: bool) -> torch.memory_format:
    return _order(data, weight) if onednn or data.dim() < 5 else PLAIN
