"""Attention on meta: scaled_dot_product_attention falls apart into products there; make it the op that the target runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from ..hooks import internals
from ..hooks.shared import Shared

Tensor = torch.Tensor
aten = torch.ops.aten
MATH, FLASH, EFFICIENT, CUDNN = range(4)
"""What `_fused_sdp_choice` answers."""
ALIGNMENT = 8
"""Kernels on a GPU read this many elements at a time: heads are as wide as a multiple of it, masks' rows begin at one."""


_targets: Shared[tuple[int, str]] = Shared(
    lambda: internals.register_on_meta("scaled_dot_product_attention", _attention)
)
"""Threads that count on meta, each with the device that its tensors stand for."""


def attention_as_on(target: str) -> AbstractContextManager[None]:
    """Inside the block, attention between this thread's meta tensors takes the path that it would on the target device."""
    return _targets.used_by((threading.get_ident(), target))


def _target() -> str | None:
    """The device that this thread's meta tensors stand for; None if it counts nothing."""
    here = threading.get_ident()
    return next((target for thread, target in reversed(_targets.users) if thread == here), None)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    if internals.ATTENTION_ADDS_A_BATCH and query.dim() == key.dim() == value.dim() == 3:
        while attn_mask is not None and attn_mask.dim() < 4:
            attn_mask = attn_mask.unsqueeze(0)
        options: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
        query, key, value = (tensor.unsqueeze(0) for tensor in (query, key, value))
        return _attention(query, key, value, attn_mask, dropout_p, is_causal, **options).squeeze(0)
    target = _target()
    path = MATH  # what torch does with meta tensors
    if target is not None:
        path = attention_path(target, query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = _added(attn_mask, query.dtype)
    trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    if path == FLASH and target == "cpu":
        out = aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
        )
    elif path == FLASH:
        wide = [_padded(tensor) if target == "cuda" else tensor for tensor in (query, key, value)]
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        out = aten._scaled_dot_product_flash_attention(*wide, dropout_p, is_causal, False, scale=scale)
        if wide[0] is not query:
            out = (out[0][..., : query.shape[-1]],)
    elif path == EFFICIENT:
        out = aten._scaled_dot_product_efficient_attention(
            query, key, value, _aligned(attn_mask), trained, dropout_p, is_causal, scale=scale
        )
    elif path == CUDNN:
        out = aten._scaled_dot_product_cudnn_attention(
            query, key, value, attn_mask, trained, dropout_p, is_causal, False, scale=scale
        )
    else:
        out = aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
        )
    first: Tensor = out[0]
    return first


def attention_path(
    target: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, causal: bool, gqa: bool
) -> int:
    """Which kernel the target device would choose: torch is asked, with small tensors that stand for the large ones."""
    ranks = {tensor.dim() for tensor in (query, key, value)}
    if ranks != {4} and not (ranks == {3} and internals.ATTENTION_ADDS_A_BATCH):
        return MATH
    if target == "meta":
        return _on_some_accelerator(query, key, value, mask)
    stand_in = _stand_ins(target)
    with internals.without_modes():
        small = [stand_in(tensor, width=tensor.shape[-1]) for tensor in (query, key, value)]
        small_mask = None if mask is None else stand_in(mask)
        return internals.attention_choice(*small, small_mask, dropout, causal, enable_gqa=gqa)


def _stand_ins(device: str) -> Callable[..., Tensor]:
    """Makes small tensors with sizes that are equal where the large ones are: heads and widths stay, the rest shrinks."""
    shrunk = {0: 0, 1: 1}

    def make(tensor: Tensor, width: int | None = None) -> Tensor:
        # another size for every size; kernels care about remainders
        shape = [shrunk.setdefault(size, ALIGNMENT * (len(shrunk) - 1) + size % ALIGNMENT) for size in tensor.shape]
        if tensor.dim() > 2:
            shape[-3] = tensor.shape[-3]
        if width is not None:
            shape[-1] = width
        gap = 1 if tensor.stride(-1) == 1 else 2  # the same memory order in the last dimension
        small = torch.empty([*shape[:-1], gap * shape[-1]], dtype=tensor.dtype, device=device)
        small = small.as_strided(shape, (*small.stride()[:-1], gap))
        return small.requires_grad_(tensor.requires_grad)

    return make


def _on_some_accelerator(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> int:
    """A model on meta names no device: what a recent GPU would do."""
    tensors = (query, key, value)
    if any(0 in t.shape or t.stride(-1) != 1 for t in tensors) or (mask is not None and mask.requires_grad):
        return MATH
    same_width = query.shape[-1] == key.shape[-1] == value.shape[-1]
    if query.dtype in (torch.float16, torch.bfloat16) and mask is None and same_width and query.shape[-1] <= 256:
        return FLASH
    return (
        EFFICIENT if query.shape[-3] == key.shape[-3] == value.shape[-3] and query.dtype is not torch.float64 else MATH
    )


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask of yes and no as numbers to add, made the way that torch makes it before it calls a kernel."""
    zero = torch.scalar_tensor(0.0, dtype=dtype, device=mask.device)
    return torch.where(mask, zero, torch.scalar_tensor(float("-inf"), dtype=dtype, device=mask.device))


def _aligned(mask: Tensor | None) -> Tensor | None:
    """A mask whose rows are padded to what the memory-efficient kernel reads at a time."""
    if mask is None or (mask.stride(-1) == 1 and not any(step % ALIGNMENT for step in mask.stride()[:-1])):
        return mask
    length = mask.shape[-1]
    return torch.nn.functional.pad(mask, (0, ALIGNMENT - length % ALIGNMENT))[..., :length]


def _padded(tensor: Tensor) -> Tensor:
    """A tensor as wide as the flash kernel wants it."""
    missing = -tensor.shape[-1] % ALIGNMENT
    return torch.nn.functional.pad(tensor, (0, missing)) if missing else tensor
