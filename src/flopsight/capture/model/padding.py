"""How much of a batch is padding, as the model's inputs say: a mask, or the id of the padding token."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ...results.records import Padding
from ..hooks import internals

KEPT = ("attention_mask", "decoder_attention_mask")
"""Masks with 1 for a token and 0 for padding."""
DROPPED = "key_padding_mask"
"""Masks whose name ends so have True, or minus infinity, for padding."""
IDS = ("input_ids", "decoder_input_ids")
INTEGERS = (torch.int64, torch.int32)


def padding_of(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Padding | None:
    """Positions of one call and how many of them are padding; None if the inputs do not say."""
    given = _named(model, args, kwargs)
    found = [_of(keep) for name, value in given.items() if (keep := _keeps(name, value)) is not None]
    if not found:
        token = _padding_token(model)
        ids = [given[name] for name in IDS if name in given] or list(given.values())[:1]
        matrices = [each for each in ids if _readable(each) and each.dtype in INTEGERS]
        found = [_of(each != token) for each in matrices] if token is not None else []
    return sum(found[1:], start=found[0]) if found else None


def _named(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs by the names that the model's forward gives them."""
    try:
        return dict(inspect.signature(model.forward).bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # a forward without a signature, or a call that it will refuse
        return dict(kwargs)


def _keeps(name: str, value: Any) -> torch.Tensor | None:
    """True for every position that is not padding; None if the input is not such a mask."""
    if not (name in KEPT or name.endswith(DROPPED)) or not _readable(value):
        return None
    mask: torch.Tensor = value
    if name.endswith(DROPPED):
        return mask == 0 if mask.dtype is torch.bool or mask.is_floating_point() else None
    added = mask.is_floating_point() and bool(((mask != 0) & (mask != 1)).any())  # added to the scores: not by position
    return None if added else mask != 0


def _readable(value: Any) -> bool:
    """Whether a value is a matrix of samples by positions whose numbers may be read: not if torch.func maps over it."""
    if type(value) is not torch.Tensor or value.dim() != 2 or value.is_meta or not value.numel():
        return False
    capturing = value.is_cuda and torch.cuda.is_current_stream_capturing()
    return internals.has_storage(value) and not capturing


def _of(keep: torch.Tensor) -> Padding:
    lengths = keep.sum(1).tolist()
    samples, most = keep.shape
    return Padding(samples * most, samples * most - sum(lengths), samples * most**2, sum(n**2 for n in lengths))


def _padding_token(model: nn.Module) -> int | None:
    """The id that the model's configuration names, else the one that its token table leaves without a gradient."""
    stated = getattr(getattr(model, "config", None), "pad_token_id", None)
    if isinstance(stated, int):
        return stated
    tables = [module.padding_idx for module in model.modules() if isinstance(module, nn.Embedding)]
    return tables[0] if len(tables) == 1 else None
