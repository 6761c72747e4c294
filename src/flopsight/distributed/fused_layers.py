"""GPT-2's layers for tensor parallelism: queries, keys and values in one product, and weights that are stored transposed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..errors import InputError

TRANSPOSED = "Conv1D"
"""The class in transformers of a linear layer whose weight is stored the other way round."""
PLAN = {"attn.c_attn": "colwise", "attn.c_proj": "rowwise", "mlp.c_fc": "colwise", "mlp.c_proj": "rowwise"}
"""How the layers of a block are divided: by heads, and by the columns of the feed-forward part."""


def plan_of(block: nn.Module) -> dict[str, str]:
    """The plan for a block that is made like GPT-2's; empty for any other."""
    layers = {path: module for path, module in block.named_modules() if type(module).__name__ == TRANSPOSED}
    return PLAN if set(layers) == set(PLAN) and hasattr(block.get_submodule("attn"), "split_size") else {}


def prepare(block: nn.Module, ways: int) -> None:
    """Put linear layers of the same size in the places of a block's transposed ones, and let attention split a part.

    A rank has the queries, keys and values of its heads side by side, as Megatron stores them; without data there is
    nothing to reorder.
    """
    for path in PLAN:
        block.set_submodule(path, _linear(block.get_submodule(path)))
    attention: Any = block.get_submodule("attn")
    if attention.split_size % ways:
        raise InputError(
            f"tp={ways} does not divide the {attention.split_size} columns of queries; take one that does."
        )
    attention.split_size //= ways


def _linear(layer: Any) -> nn.Linear:
    inputs, outputs = layer.weight.shape
    made = nn.Linear(inputs, outputs, device="meta", dtype=layer.weight.dtype)
    made.weight.requires_grad_(layer.weight.requires_grad)
    made.bias = nn.Parameter(torch.empty_like(layer.bias), requires_grad=layer.bias.requires_grad)
    return made.train(layer.training)
