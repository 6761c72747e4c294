"""A copy of a model that shares the memory of its parameters and nothing else, so that it can make a call of ours."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ..capture.hooks.patches import eager
from ..capture.model.tensors import rebuilt, stored_bytes, tensors_in
from ..capture.twin.meta_copy import plain_tensors

LARGEST = 1 << 24
"""Bytes that may be copied. A call on more is not so short that its caches matter, and may need the memory."""


def sharing_copy(model: nn.Module, inputs: Any) -> nn.Module | None:
    """The copy: buffers, attributes and gradients are its own; None where it would be large, or wait for other processes."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return None
    held = [*model.buffers(), *plain_tensors(model)]
    if sum(map(stored_bytes, (*held, *tensors_in(inputs)))) > LARGEST:
        return None
    memo: dict[int, Any] = {id(tensor): _cloned(tensor) for tensor in held}
    memo.update((id(p), nn.Parameter(p.detach(), p.requires_grad)) for p in model.parameters())
    return copy.deepcopy(model, memo)


def copied_inputs(inputs: Any) -> Any:
    """Inputs in containers and memory of their own."""
    return rebuilt(inputs, lambda leaf: _cloned(leaf) if isinstance(leaf, torch.Tensor) else leaf, anew=True)


@contextmanager
def for_copies() -> Iterator[None]:
    """Nothing is compiled for a copy, and autocast keeps no weights that it cast, or the model would use those."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with eager():
            yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _cloned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
