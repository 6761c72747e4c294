"""The processes that run a model together, as this one sees them; nothing here talks to another process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import distributed, nn

from ..capture.hooks.parallel import is_running
from ..results.comm import GroupKey, group_key
from ..results.world import World


def is_engine(model: Any) -> bool:
    """Whether a model is DeepSpeed's engine around one."""
    return ENGINE in _kinds(model)


def rank_and_size() -> tuple[int, int]:
    """Which of how many processes this is, by torch.distributed or by what torchrun says."""
    if is_running():
        return distributed.get_rank(), distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def is_dry() -> bool:
    """Whether the other ranks are torch's fake process group."""
    return is_running() and distributed.get_backend() == "fake"


def job_name() -> str:
    """What torchrun calls the job; empty if it gave no name."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return "" if name == "none" else name


ENGINE = "DeepSpeedEngine"
SHARDING = {"FullyShardedDataParallel", "FSDPModule"}
REPLICATE = "torch.distributed._composable.replicate"


@dataclass(frozen=True)
class Axis:
    """One way in which ranks are divided: a dimension of a mesh, or a process group without a mesh."""

    group: GroupKey
    size: int
    name: str | None = None

    @property
    def ranks(self) -> frozenset[int]:
        """The ranks that it joins; empty if a library states only how many they are."""
        return self.group if isinstance(self.group, frozenset) else frozenset()


def world_of(models: Iterable[Any]) -> World:
    """This process among the others: which ranks have batches of their own, which share the work on one batch."""
    rank, size = rank_and_size()
    roots = [model for model in models if isinstance(model, nn.Module)]
    data = list(_data_axes(roots))
    axes = _by_ranks((*data, *_mesh_axes(roots), *_engine_axes(roots)))
    own_batch, joined = {axis.group for axis in data}, {rank}
    return World(
        size=size,
        rank=rank,
        data_parallel=_ways((axis for axis in axes if axis.group in own_batch), joined),
        model_parallel=_ways((axis for axis in axes if axis.group not in own_batch), joined),
        sharded=any(SHARDING & _kinds(module) for module in _modules(roots)) or _zero_group(roots) is not None,
        mesh=_in_order(axes, roots),
    )


def with_pipeline(world: World, stages: Mapping[int, tuple[int, int]]) -> World:
    """The world of a rank that ran stages of a pipeline: by number, its place among the pipeline's ranks."""
    if not stages:
        return world
    place, ways = next(iter(stages.values()))
    return replace(world, pipeline=ways, stage=place, model_parallel=world.model_parallel * ways)


def mesh_dimensions(models: Iterable[Any]) -> dict[GroupKey, str]:
    """Names of mesh dimensions by the ranks that they join."""
    roots = [model for model in models if isinstance(model, nn.Module)]
    axes = _by_ranks((*_data_axes(roots), *_mesh_axes(roots)))
    return {axis.group: axis.name for axis in axes if axis.name is not None}


def _by_ranks(axes: Iterable[Axis]) -> list[Axis]:
    """One axis for each set of ranks: the first that has a name, or else the first."""
    found: dict[GroupKey, Axis] = {}
    for axis in axes:
        if axis.group not in found or found[axis.group].name is None:
            found[axis.group] = axis
    return list(found.values())


def _ways(axes: Iterable[Axis], joined: set[int]) -> int:
    """How many times the axes multiply the ranks joined so far, which they join.

    An axis inside a larger one multiplies nothing: experts that are sharded over some of the ranks that shard the
    rest. So the largest comes first.
    """
    found = 1
    for axis in sorted(axes, key=lambda axis: -axis.size):
        found *= axis.size // max(1, len(axis.ranks & joined))
        joined |= axis.ranks
    return found


def _modules(roots: Iterable[nn.Module]) -> Iterator[Any]:
    return (module for root in roots for module in root.modules())


def _kinds(module: Any) -> set[str]:
    return {kind.__name__ for kind in type(module).__mro__}  # their modules are not ours to import


def _data_axes(roots: list[nn.Module]) -> Iterator[Axis]:
    """The dimensions along which ranks take batches of their own, by what wraps the first parallel module."""
    for module in _modules(roots):
        kinds = _kinds(module)
        if "FSDPModule" in kinds:
            yield from _fsdp_axes(module)
        elif "DistributedDataParallel" in kinds or "FullyShardedDataParallel" in kinds:
            mesh = getattr(module, "device_mesh", None) or getattr(module, "_device_mesh", None)
            if mesh is not None:
                yield from axes_of(mesh)
                continue
            yield from map(_axis, _groups(module))
        elif "DDP" in kinds:
            yield from _replicated_axes(module)
        elif ENGINE in kinds:
            yield Axis("engine's data parallel ranks", module.dp_world_size or module.seq_dp_world_size)
            return
    group = _zero_group(roots)
    if group is not None:
        yield _axis(group)


def _zero_group(roots: list[nn.Module]) -> Any:
    """The ranks that DeepSpeed's ZeRO has split parameters among, None if it has not."""
    for root in roots:
        for parameter in root.parameters():
            if getattr(parameter, "ds_tensor", None) is not None:
                return getattr(parameter, "ds_process_group", None)
    return None


def _engine_axes(roots: list[nn.Module]) -> Iterator[Axis]:
    """The ranks that a DeepSpeed engine shares tensors with, as its `mpu` says."""
    for module in _modules(roots):
        if ENGINE in _kinds(module) and module.mp_world_size > 1:
            yield Axis("engine's model parallel ranks", module.mp_world_size)


def _groups(module: Any) -> Iterator[Any]:
    """The groups of an older wrapper: one, or with hybrid sharding one that shards and one that replicates."""
    yield module.process_group
    between = getattr(module, "_inter_node_pg", None)
    if between is not None:
        yield between


def _replicated_axes(module: Any) -> Iterator[Axis]:
    """The ranks of torch's `replicate`, which keeps its DistributedDataParallel apart from the module."""
    library: Any = sys.modules.get(REPLICATE)
    wrapper = getattr(library.replicate.state(module), "_ddp", None) if library is not None else None
    if wrapper is None:
        return
    if wrapper.device_mesh is not None:
        yield from axes_of(wrapper.device_mesh)
    else:
        yield _axis(wrapper.process_group)


def _fsdp_axes(module: Any) -> Iterator[Axis]:
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
    for group in groups:
        mesh = getattr(getattr(group, "mesh_info", None), "mesh", None)
        if mesh is not None:
            yield from axes_of(mesh)


def axes_of(mesh: Any) -> Iterator[Axis]:
    """The dimensions of a device mesh."""
    names = mesh.mesh_dim_names or (None,) * mesh.ndim
    for place, name in enumerate(names):
        yield _axis(mesh.get_group(place), name)


def _axis(group: Any, name: str | None = None) -> Axis:
    return Axis(group_key(group, distributed.get_process_group_ranks), group.size(), name)


def _mesh_axes(roots: list[nn.Module]) -> Iterator[Axis]:
    """The dimensions of every mesh that a parameter or a buffer is spread over."""
    for mesh in {id(mesh): mesh for mesh in _meshes(roots)}.values():
        yield from axes_of(mesh)


def _meshes(roots: list[nn.Module]) -> Iterator[Any]:
    for root in roots:
        for tensor in (*root.parameters(), *root.buffers()):
            mesh = getattr(tensor, "device_mesh", None)
            if mesh is not None:
                yield mesh


def _in_order(axes: Iterable[Axis], roots: list[nn.Module]) -> dict[str, int]:
    """Sizes of the named dimensions, in the order of the mesh that has most of them; of two with one name the first."""
    named: dict[str, int] = {}
    for axis in axes:
        if axis.name is not None:
            named.setdefault(axis.name, axis.size)
    order: list[str] = []
    for mesh in sorted(_meshes(roots), key=lambda mesh: -int(mesh.ndim))[:1]:
        order = [name for name in mesh.mesh_dim_names or () if name in named]
    return {name: named[name] for name in dict.fromkeys((*order, *named))}
