"""A model divided over a device mesh, as a training script divides it: tensor parallel, then FSDP2 or DDP."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..capture.hooks.internals import TorchDispatchMode
from .dryrun import Answering
from .job_options import DEFAULTS, JobOptions
from .tp_styles import divide_products, spread_experts

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

SHARDING = ("fsdp", "cp", "ep")
"""Axes whose ranks have tokens of their own and share one gradient."""
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def cut(
    model: nn.Module, mesh: DeviceMesh, options: JobOptions = DEFAULTS, *, blocks: Mapping[str, nn.Module], train: bool
) -> nn.Module:
    """The model as this rank of the mesh holds it after its first step; the model itself is changed.

    Products inside the blocks are divided over `tp`, experts over `ep`; every block, then the rest, is sharded over
    `fsdp`, with replicas over `dp`; without `fsdp`, DistributedDataParallel averages gradients over `dp`. Ranks of `cp`
    and `ep` have tokens of their own, so they take part in both; experts are sharded over the others alone.
    """
    names = mesh.mesh_dim_names or ()
    if "tp" in names and (blocks or "pp" not in names):  # a stage may hold the embedding or the head alone
        divide_products(model, mesh["tp"], blocks, options.tp_plan)
    experts = spread_experts(model, mesh["ep"]) if "ep" in names and (blocks or "pp" not in names) else []
    if "fsdp" in names:
        how = _policies(options)
        for module in experts:
            _shard_experts(module, _over(mesh, SHARDING[:2]), mesh, how)
        _shard(model, _over(mesh, SHARDING), how, list(blocks.values()), options.wrap)
        _settle(model, train=train)
        return model
    replicas = [name for name in ("dp", *SHARDING[1:]) if name in names and mesh[name].size() > 1]
    return _replicated(model, _joined(mesh, replicas), experts) if replicas else model


def _over(mesh: DeviceMesh, shards: tuple[str, ...]) -> DeviceMesh:
    """The ranks among which parameters are sharded, beside replicas of them if there are any."""
    names = mesh.mesh_dim_names or ()
    joined = _joined(mesh, [name for name in shards if name in names])
    if "dp" not in names:
        return joined
    return mesh["dp", joined.mesh_dim_names[0]]  # type: ignore[index]


def _joined(mesh: DeviceMesh, names: list[str]) -> DeviceMesh:
    """Several axes as one."""
    return mesh[tuple(names)]._flatten("_".join(names)) if len(names) > 1 else mesh[names[0]]


def _policies(options: JobOptions) -> dict[str, Any]:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    precision = MixedPrecisionPolicy(
        param_dtype=DTYPES[options.precision] if options.precision else None,
        reduce_dtype=DTYPES[options.reduce] if options.reduce else None,
    )
    return {"reshard_after_forward": options.reshard, "mp_policy": precision}


def _shard(model: nn.Module, mesh: DeviceMesh, how: dict[str, Any], blocks: list[nn.Module], wrap: int) -> None:
    """Shard so many blocks at a time as one unit, then what is left in the root.

    Without data there is nothing to move to the host: whoever counts leaves offloaded shards out of the device's memory.
    """
    from torch.distributed.fsdp import fully_shard

    for first in range(0, len(blocks), wrap):
        unit = blocks[first : first + wrap]
        fully_shard(unit if len(unit) > 1 else unit[0], mesh=mesh, **how)
    fully_shard(model, mesh=mesh, **how)


def _shard_experts(module: Any, over: DeviceMesh, mesh: DeviceMesh, how: dict[str, Any]) -> None:
    """Shard the experts of this rank; their gradients are of the tokens of all ranks of `ep`, so they are divided by more."""
    from torch.distributed.fsdp import fully_shard

    fully_shard(module, mesh=over, **how)
    batches = prod(mesh[name].size() for name in ("dp", *SHARDING) if name in (mesh.mesh_dim_names or ()))
    module.set_gradient_divide_factor(float(batches))
    module.set_force_sum_reduction_for_comms(True)


def _settle(model: Any, *, train: bool) -> None:
    """Do what FSDP2 does in its first forward: it pads shards, and in inference the root's weights stay gathered."""
    model._get_fsdp_state()._lazy_init()
    if not train:
        with _WithoutData():  # type: ignore[no-untyped-call]
            model.unshard()


class _WithoutData(TorchDispatchMode):
    """What FSDP2 makes on the device of its mesh is made on meta."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an op, with meta in the place of the device that it names."""
        given = dict(kwargs or {})
        return func(*args, **(given | {"device": "meta"} if "device" in given else given))


def _replicated(model: nn.Module, mesh: DeviceMesh, experts: list[nn.Module]) -> nn.Module:
    from torch.nn.parallel import DistributedDataParallel

    own = {id(parameter) for module in experts for parameter in module.parameters()}
    kept = [name for name, parameter in model.named_parameters() if id(parameter) in own]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, kept)
    answering: Any = Answering(mesh.get_group())
    wrapped = DistributedDataParallel(model, process_group=answering, init_sync=False)
    # torch knows the ranks of the mesh's group; the reducer has the one that answers, and does not keep its Python side alive
    wrapped.device_mesh, wrapped.process_group, wrapped.answering = mesh, mesh.get_group(), answering
    return wrapped
