"""The storages that an op takes and leaves written, by the numbers that `Live` gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ..model.tensors import flat
from .live import Live
from .opinfo import OpInfo, values_by_name


class Use(NamedTuple):
    """What an op did with memory; a storage that was never met has no number."""

    taken: list[tuple[torch.Tensor, int | None]]
    """What it was given, with the storages."""
    left: list[int | None]
    """The storages of what it returned and of what it wrote into, in this order."""


def use_of(live: Live, info: OpInfo, args: Any, kwargs: Mapping[str, Any], output: Any) -> Use:
    """The storages that one call took and left."""
    birth_of = live.birth_of
    taken = [(tensor, birth_of(tensor)) for tensor in flat((args, kwargs) if kwargs else args)]
    return Use(taken, [birth_of(tensor) for tensor in (*flat(output), *written(info, args, kwargs))])


def written(info: OpInfo, args: Any, kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The arguments that an op writes into; one that is not torch's own may write into any."""
    if not info.name.startswith("aten."):
        return list(flat((args, kwargs)))
    named = values_by_name(info, args, kwargs) if info.writes else {}
    return list(flat([named[name] for name in info.writes if name in named]))
