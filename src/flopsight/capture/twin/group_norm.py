"""Group norm of a twin whose channels come last: on the CPU its gradients keep that order, on meta torch copies them."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from ..hooks import internals

Tensor = torch.Tensor
aten = torch.ops.aten


def group_norm_on_cpu(
    data: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05,
    cudnn_enabled: bool = True,  # noqa: ARG001
) -> Tensor:  # fmt: skip
    """What torch does on the CPU; the arguments are those of `torch.group_norm`."""
    if internals.GROUP_NORM_KEEPS_ORDER:
        kept: Tensor = aten.native_group_norm(data, weight, bias, *_sizes(data), num_groups, eps)[0]
        return kept
    order = internals.memory_order(data)
    data = data.contiguous(memory_format=order)
    if order is torch.contiguous_format:
        made: Tensor = aten.native_group_norm(data, weight, bias, *_sizes(data), num_groups, eps)[0]
    else:
        made = _ChannelsLast.apply(data, weight, bias, num_groups, eps)  # type: ignore[no-untyped-call]
    return made


def _sizes(data: Tensor) -> tuple[int, int, int]:
    batch, channels, *rest = data.shape
    return batch, channels, prod(rest)


class _ChannelsLast(torch.autograd.Function):
    """Torch decides by the device whether gradients are brought into plain order, and meta is not the CPU."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float) -> Tensor:
        made, mean, deviation = aten.native_group_norm(data, weight, bias, *_sizes(data), groups, eps)
        ctx.groups = groups
        ctx.save_for_backward(data, weight, mean, deviation)
        first: Tensor = made
        return first

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        data, weight, mean, deviation = ctx.saved_tensors
        grad = grad.contiguous(memory_format=internals.memory_order(data))
        wanted = list(ctx.needs_input_grad[:3])
        made = aten.native_group_norm_backward(
            grad, data, mean, deviation, weight, *_sizes(data), ctx.groups, wanted
        )  # fmt: skip
        return *made, None, None
