"""What the CPU's kernels return where other devices' return something else: memory order, statistics, nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..hooks import internals
from .recurrent import fused_layer

Tensor = torch.Tensor
aten = torch.ops.aten


def batch_norm(data: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    """A result in plain order or with channels last; statistics are kept only when they were worked out."""
    _, mean, deviation = aten.native_batch_norm.default(data, weight, bias, *rest)
    training = rest[2]
    statistics = [_as_precise(one if training else one.new_empty(0), data, weight) for one in (mean, deviation)]
    return _ordered_as(data), *statistics


def batch_norm_backward(grad: Tensor, data: Tensor, *rest: Any) -> tuple[Tensor | None, ...]:
    """The gradient of the data in the order of the data."""
    _, *others = aten.native_batch_norm_backward.default(grad, data, *rest)
    wanted = rest[-1]
    return _ordered_as(data) if wanted[0] else None, *others


def layer_norm(data: Tensor, shape: Any, weight: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    """Statistics in the precision of the weights where there are some, else of the data."""
    made, *statistics = aten.native_layer_norm.default(data, shape, weight, *rest)
    return made, *(_as_precise(one, data, weight) for one in statistics)


def group_norm(data: Tensor, weight: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    """The same, and a result in the order of the data, which 2.14 brings into plain order on meta."""
    _, *statistics = aten.native_group_norm.default(data, weight, *rest)
    return _ordered_as(data), *(_as_precise(one, data, weight) for one in statistics)


def group_norm_backward(grad: Tensor, data: Tensor, *rest: Any) -> tuple[Tensor | None, ...]:
    """The gradient of the data in the precision and the order of the data."""
    made, *others = aten.native_group_norm_backward.default(grad, data, *rest)
    return None if made is None else _ordered_as(data), *others


def log_sigmoid(data: Tensor) -> tuple[Tensor, Tensor]:
    """A result in plain order, and what backward needs: on other devices nothing."""
    made = torch.empty(data.shape, dtype=data.dtype, device="meta")
    return made, torch.empty_like(made)


def loss_in_place(func: Any) -> Callable[..., Tensor]:
    """A loss in the memory of all that was added up, which the CPU shrinks to one number afterwards."""

    def loss(data: Tensor, target: Tensor, *rest: Any) -> Tensor:
        made: Tensor = func(data, target, *rest)
        if made.dim():  # nothing was added up
            return made
        shape = torch.broadcast_shapes(data.shape, target.shape)
        return torch.empty(shape, dtype=made.dtype, device="meta").as_strided((), ())

    return loss


def padded(func: Any) -> Callable[..., Tensor]:
    """A padded image, its channels last where they were."""

    def pad(data: Tensor, *rest: Any) -> Tensor:
        made: Tensor = func(data, *rest)
        return made.contiguous(memory_format=internals.memory_order(data))

    return pad


def like_the_data(_grad: Tensor, data: Tensor, *_rest: Any) -> Tensor:
    """The gradient of the data in the order of the data."""
    return _ordered_as(data)


def _ordered_as(data: Tensor) -> Tensor:
    order = torch.contiguous_format if data.is_contiguous() else internals.memory_order(data)
    return torch.empty(data.shape, dtype=data.dtype, device="meta", memory_format=order)


def _as_precise(statistics: Tensor, data: Tensor, weight: Tensor | None) -> Tensor:
    return statistics.to(data.dtype if weight is None else weight.dtype)


PADS = (aten.reflection_pad2d, aten.reflection_pad3d, aten.replication_pad2d, aten.replication_pad3d)
PADS_BACKWARD = (
    aten.reflection_pad2d_backward,
    aten.reflection_pad3d_backward,
    aten.replication_pad2d_backward,
    aten.replication_pad3d_backward,
)
LOSSES = (aten.mse_loss, aten.smooth_l1_loss, aten.binary_cross_entropy, aten.soft_margin_loss)
CPU_KERNELS: dict[Any, Callable[..., Any]] = {
    aten.native_batch_norm.default: batch_norm,
    aten.native_batch_norm_backward.default: batch_norm_backward,
    aten.native_layer_norm.default: layer_norm,
    aten.native_group_norm.default: group_norm,
    aten.native_group_norm_backward.default: group_norm_backward,
    aten.log_sigmoid_forward.default: log_sigmoid,
    aten.mkldnn_rnn_layer.default: fused_layer,
    aten.channel_shuffle.default: padded(aten.channel_shuffle.default),
    **{op.default: loss_in_place(op.default) for op in LOSSES},
    **{op.default: padded(op.default) for op in PADS},
    **{op.default: like_the_data for op in PADS_BACKWARD},
}
