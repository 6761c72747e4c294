"""Masks that say which tokens of a call are padding: where they stand in it, and how many tokens they keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

MASKS = ("attention_mask", "decoder_attention_mask")

MaskPlace = tuple[int | None, str | None]
"""Where in a call its mask is: by place or by name, or an entry of the batch at a place."""


def mask_at(place: MaskPlace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The mask of a call."""
    at, name = place
    if at is None:
        return kwargs[name or ""]
    return args[at] if name is None else args[at][name]


def padding_mask(tokens: int | None, names: Sequence[str], args: Any, kwargs: dict[str, Any]) -> MaskPlace | None:
    """Where the argument is that says which tokens are padding, if there is one and it is a mask of all of them."""
    for place in _places_of_masks(names, args, kwargs):
        mask = mask_at(place, args, kwargs)
        if type(mask) is torch.Tensor and mask.dim() == 2 and mask.numel() == tokens and not mask.is_floating_point():
            return place
    return None


def _places_of_masks(names: Sequence[str], args: Any, kwargs: dict[str, Any]) -> Iterator[MaskPlace]:
    """Where a mask may be: an argument of that name, or an entry of a batch that is a dictionary."""
    for name in MASKS:
        if name in kwargs:
            yield None, name
        for at, value in enumerate(args):
            if names[at : at + 1] == (name,):
                yield at, None
            elif isinstance(value, Mapping) and name in value:
                yield at, name


def counted_later(mask: torch.Tensor) -> torch.Tensor:
    """The number of tokens that a mask keeps, on the host once the device has come to this moment."""
    host = torch.empty((), dtype=torch.int64, pin_memory=True)
    return host.copy_(torch.count_nonzero(mask), non_blocking=True)
