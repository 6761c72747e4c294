"""Adds to a profile what a DeepSpeed engine knows: the world, the batch, the times of its phases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..results.profile import Profile
from ..results.timings import Stat, Timing

SHARDS_PARAMETERS = 3
"""From this ZeRO stage on, a rank holds only a part of every parameter."""


def with_engine(seen: Profile, engine: Any, batches: int = 1) -> Profile:
    """Add the engine's world, batch size and timers to a profile of some batches."""
    world = replace(
        seen.world,
        size=engine.world_size,
        rank=engine.global_rank,
        # with sequence parallelism the engine knows only the size of the joint group
        data_parallel=engine.dp_world_size or engine.seq_dp_world_size,
        model_parallel=engine.mp_world_size,
        sharded=engine.zero_optimization_stage() >= SHARDS_PARAMETERS,
    )
    samples = engine.train_micro_batch_size_per_gpu() * batches
    return replace(seen, world=world, batch_size=samples, timing=_timing(engine, seen.timing))


def _timing(engine: Any, timing: Timing) -> Timing:
    """The engine's own timers, in milliseconds, where it keeps them; they hold every batch since its last update."""
    if not engine.wall_clock_breakdown():
        return timing
    timers = engine.timers.get_timers()

    def seconds(name: str, known: Stat | None) -> Stat | None:
        return Stat((timers[name].elapsed(reset=False) / 1000,)) if name in timers else known

    return replace(
        timing,
        forward=seconds("fwd", timing.forward),
        backward=seconds("bwd", timing.backward),
        optimizer=seconds("step", timing.optimizer),
    )
