"""The processes that run a model together, as this one sees them; nothing here talks to another process."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import distributed

from ..tree import World


def rank_and_size() -> tuple[int, int]:
    """Which of how many processes this is, by torch.distributed or by what torchrun says."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def world_of(models: Iterable[Any]) -> World:
    """This process among the others; how many take batches of their own is told by what wraps the first parallel model."""
    rank, size = rank_and_size()
    world = World(size=size, rank=rank)
    for model in models:
        kinds = {kind.__name__ for kind in type(model).__mro__}  # their modules are not ours to import
        if "DistributedDataParallel" in kinds:
            return replace(world, data_parallel=model.process_group.size())
        if "FullyShardedDataParallel" in kinds:
            return replace(world, data_parallel=model.process_group.size(), sharded=True)
        if "FSDPModule" in kinds:
            return replace(world, data_parallel=_sharing(model), sharded=True)
    return world


def _sharing(model: Any) -> int:
    """How many processes share the parameters; of a mesh with several dimensions it is not told which are for the data."""
    mesh = next((tensor.device_mesh for tensor in model.parameters() if hasattr(tensor, "device_mesh")), None)
    return mesh.size() if mesh is not None and mesh.ndim == 1 else 1
