"""What the CPU's kernels return where other devices' return something else: memory order, statistics, nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..hooks import internals
from .convolution import convolution_backward_on_cpu, convolution_on_cpu
from .elementwise_kernels import empty_like, restrided
from .recurrent_kernels import fused_layer
from .strides import iterated_strides, kept_strides, plain_strides

Tensor = torch.Tensor
aten = torch.ops.aten


def batch_norm(data: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    """A result in plain order or with channels last; statistics are kept only when they were worked out."""
    _, mean, deviation = aten.native_batch_norm.default(data, weight, bias, *rest)
    training = rest[2]
    statistics = [_as_precise(one if training else one.new_empty(0), data, weight) for one in (mean, deviation)]
    return _empty(data.shape, data.dtype, _filled_order(data)), *statistics


def batch_norm_backward(grad: Tensor, data: Tensor, *rest: Any) -> tuple[Tensor | None, ...]:
    """The gradient of the data in the order of the data."""
    _, *others = aten.native_batch_norm_backward.default(grad, data, *rest)
    wanted = rest[-1]
    order = internals.memory_order(data)
    order = _filled_order(data) if order is torch.contiguous_format else order
    return _empty(data.shape, data.dtype, order) if wanted[0] else None, *others


def layer_norm(data: Tensor, shape: Any, weight: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    """Statistics in the precision of the weights if there are some, else of the data."""
    made, *statistics = aten.native_layer_norm.default(data, shape, weight, *rest)
    return restrided(made, plain_strides(made.shape)), *(_as_precise(one, data, weight) for one in statistics)


def group_norm(data: Tensor, weight: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    """The same, and a result in the order of the data, which 2.14 brings into plain order on meta."""
    _, *statistics = aten.native_group_norm.default(data, weight, *rest)
    return _empty_as(data), *(_as_precise(one, data, weight) for one in statistics)


def group_norm_backward(grad: Tensor, data: Tensor, *rest: Any) -> tuple[Tensor | None, ...]:
    """The gradient of the data in the precision and the order of the data."""
    made, *others = aten.native_group_norm_backward.default(grad, data, *rest)
    return None if made is None else _empty_as(data), *others


def log_sigmoid(data: Tensor) -> tuple[Tensor, Tensor]:
    """A result in plain order, and what backward needs: on other devices nothing."""
    made = torch.empty(data.shape, dtype=data.dtype, device="meta")
    return made, empty_like(made)


def loss_in_place(func: Any) -> Callable[..., Tensor]:
    """A loss in the memory of all that was added up, which the CPU shrinks to one number afterwards."""

    def loss(data: Tensor, target: Tensor, *rest: Any) -> Tensor:
        made: Tensor = func(data, target, *rest)
        if made.dim():  # nothing was added up
            return restrided(made, iterated_strides([data, target]))
        shape = torch.broadcast_shapes(data.shape, target.shape)
        return torch.empty(shape, dtype=made.dtype, device="meta").as_strided((), ())

    return loss


def padded(func: Any) -> Callable[..., Tensor]:
    """A padded image, its channels last if they were."""

    def pad(data: Tensor, *rest: Any) -> Tensor:
        made: Tensor = func(data, *rest)
        return _empty(made.shape, made.dtype, internals.memory_order(data))

    return pad


def attention(query: Tensor, *rest: Any, **options: Any) -> tuple[Tensor, ...]:
    """A result in the memory order of the queries."""
    made, *others = aten._scaled_dot_product_flash_attention_for_cpu.default(query, *rest, **options)
    return restrided(made, kept_strides(query)), *others


def in_memory_of_data(func: Any) -> Callable[..., Tensor]:
    """Columns of an image, or an image of its columns, in memory for the larger of the two."""

    def made(data: Tensor, *rest: Any) -> Tensor:
        output: Tensor = func(data, *rest)
        whole = torch.empty(max(data.numel(), output.numel()), dtype=output.dtype, device="meta")
        return whole.as_strided(output.shape, plain_strides(output.shape))

    return made


def embedding_bag(func: Any) -> Callable[..., tuple[Tensor, ...]]:
    """Sums of rows; what backward needs of them is less after a plain sum, and lies in memory that was made for more."""

    def made(
        weight: Tensor, indices: Tensor, offsets: Tensor, scaled: bool = False, mode: int = 0, sparse: bool = False,
        factors: Tensor | None = None, last: bool = False, padding: int = -1,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        output, bags, _, largest = func(weight, indices, offsets, scaled, mode, sparse, factors, last, padding)
        fast = mode == 0 and padding < 0 and weight.stride(1) == 1 and weight.dtype in FAST_BAGS
        if factors is not None:
            fast = fast and factors.stride(0) == 1
        count = offsets.numel() if mode == 0 and func is aten._embedding_bag_forward_only.default else output.shape[0]
        bags = bags.new_empty(0 if fast else indices.numel() + 1)[: indices.numel()]
        sizes = offsets.new_empty(offsets.numel())[:count]
        return output, bags, sizes, largest if mode == 2 else offsets.new_empty(count)

    return made


def like_the_data(_grad: Tensor, data: Tensor, *_rest: Any) -> Tensor:
    """The gradient of the data in the order of the data."""
    return _empty_as(data)


def _empty_as(data: Tensor) -> Tensor:
    """A tensor like the data, its channels last if theirs seem to be."""
    return _empty(data.shape, data.dtype, internals.memory_order(data))


def _empty(shape: Any, dtype: torch.dtype, order: torch.memory_format) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta", memory_format=order)


def _filled_order(data: Tensor) -> torch.memory_format:
    """The order in which a tensor has neither gaps nor repetitions; plain if there is none."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(data.dim())
    if last is None or data.is_contiguous() or not data.is_contiguous(memory_format=last):
        return torch.contiguous_format
    return last


def _as_precise(statistics: Tensor, data: Tensor, weight: Tensor | None) -> Tensor:
    return statistics.to(data.dtype if weight is None else weight.dtype)


FAST_BAGS = {torch.float32, torch.float16, torch.bfloat16}
PADS = (aten.reflection_pad2d, aten.reflection_pad3d, aten.replication_pad2d, aten.replication_pad3d)
SHUFFLES = (aten.channel_shuffle, aten.pixel_shuffle, aten.pixel_unshuffle)
RESIZES = (
    aten.upsample_nearest2d, aten._upsample_nearest_exact2d, aten.upsample_bilinear2d, aten.upsample_bicubic2d,
    aten._upsample_bilinear2d_aa, aten._upsample_bicubic2d_aa, aten.upsample_nearest3d, aten._upsample_nearest_exact3d,
    aten.upsample_trilinear3d,
)  # fmt: skip
LOSSES = (aten.mse_loss, aten.smooth_l1_loss, aten.binary_cross_entropy, aten.soft_margin_loss)
CPU_KERNELS: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: convolution_on_cpu,
    aten.convolution_backward.default: convolution_backward_on_cpu,
    aten.col2im.default: in_memory_of_data(aten.col2im.default),
    aten.im2col.default: in_memory_of_data(aten.im2col.default),
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention,
    aten._embedding_bag.default: embedding_bag(aten._embedding_bag.default),
    aten._embedding_bag_forward_only.default: embedding_bag(aten._embedding_bag_forward_only.default),
    aten.native_batch_norm.default: batch_norm,
    aten.native_batch_norm_backward.default: batch_norm_backward,
    aten.native_layer_norm.default: layer_norm,
    aten.native_group_norm.default: group_norm,
    aten.native_group_norm_backward.default: group_norm_backward,
    aten.log_sigmoid_forward.default: log_sigmoid,
    aten.mkldnn_rnn_layer.default: fused_layer,
    **{op.default: loss_in_place(op.default) for op in LOSSES},
    **{op.default: padded(op.default) for op in (*PADS, *SHUFFLES, *RESIZES)},
    **{getattr(aten, f"{pad.__name__}_backward").default: like_the_data for pad in PADS},
}
