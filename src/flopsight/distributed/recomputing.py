"""Blocks that keep less for backward and compute it again: torch's checkpoint wrapper around each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from ..errors import InputError
from .blocks import repeated_blocks, without_cache

KEPT = {
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops.aten.max.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
}
"""Ops whose results the selective policy keeps: costly to compute, small to hold."""
PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}
"""Of these it keeps the results of the first, the third and so on of a block."""


def checkpoint_blocks(model: nn.Module, how: str) -> None:
    """Put torch's checkpoint wrapper around every repeated block; `how` is "none", "full" or "selective".

    A model of transformers keeps no cache of keys and values then, as with its own gradient checkpointing.
    """
    if how == "none":
        return
    without_cache(model)  # keys and values in a cache would be added to it again in backward
    blocks = repeated_blocks(model)
    if not blocks:
        raise no_blocks(how)
    for path, block in blocks.items():
        model.set_submodule(path, checkpointed(block, how))


def no_blocks(how: str) -> InputError:
    """The refusal of a checkpoint that would have no effect."""
    return InputError(
        f"checkpoint={how!r} goes around repeated blocks, and the model has none: put them into an nn.ModuleList or an "
        f'nn.Sequential, or leave checkpoint at "none".'
    )


def checkpointed(block: nn.Module, how: str) -> nn.Module:
    """The block in torch's checkpoint wrapper; as it is if nothing is to be computed again."""
    if how == "none":
        return block
    options: dict[str, Any] = {"context_fn": selective} if how == "selective" else {}
    wrapped: nn.Module = checkpoint_wrapper(block, **options)
    return wrapped


def selective() -> Any:
    """The contexts of one selective checkpoint: every call of a block counts its products anew."""
    return create_selective_checkpoint_contexts(_policy())


def _policy() -> Callable[..., CheckpointPolicy]:
    seen = {False: 0, True: 0}

    def policy(seen: dict[bool, int], context: Any, op: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
        kept = op in KEPT
        if op in PRODUCTS:
            seen[context.is_recompute] += 1
            kept = seen[context.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return partial(policy, seen)
