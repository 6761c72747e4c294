"""The processes that run one model together, and what the model is without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .costs import FREE, Cost
from .read_only import FixedTables


@dataclass(frozen=True)
class World(FixedTables):
    """The processes that ran the model together, as this one sees them."""

    size: int = 1
    """How many processes."""
    rank: int = 0
    """Which of them this one is."""
    data_parallel: int = 1
    """Ranks with batches of their own."""
    model_parallel: int = 1
    """Ranks that share the work on one batch: tensor parallel times pipeline."""
    sharded: bool = False
    """Whether a rank keeps only a shard of each parameter between steps."""
    mesh: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the device mesh's dimensions, by the mesh's own names."""
    pipeline: int = 1
    """Ranks that the layers are divided among."""
    stage: int = 0
    """Which of them this one is."""
    expert: int = 1
    """Ranks that the experts are divided among."""
    expert_rank: int = 0
    """Which of them this one is."""


ALONE = World()
"""A process by itself."""


@dataclass(frozen=True)
class Whole:
    """One replica of the model at this rank's batch: model-parallel ranks summed, data-parallel ranks never."""

    params: int = 0
    """Parameters of the whole model."""
    macs: int = 0
    """MACs of its forward."""
    flops: int = 0
    """FLOPs of its forward."""
    backward: Cost = FREE
    """Costs of its backward."""
    recompute: Cost = FREE
    """Costs of what a checkpoint repeats."""
    activation_bytes: int = 0
    """What the whole model keeps for backward."""
    peak_bytes: int | None = None
    """Most memory alive at once, if one device held it all; None if that is not known."""
    active_params: int | None = None
    """Those of `params` that one token passes; None if that is not known."""

    def __add__(self, other: Whole) -> Whole:
        """Both parts of one model; what memory it has at most when all of it runs is not known."""
        active = [part.active_params for part in (self, other) if part.active_params is not None]
        names = ("params", "macs", "flops", "backward", "recompute", "activation_bytes")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Whole(**sums, active_params=sum(active) if len(active) == 2 else None)
