"""Process groups made in every way that libraries and users make them; the cases run on two ranks and on four."""

import os

import torch
from distributed.nets import Pair, batch, net
from releases import FSDP2, PIPELINES
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import flopsight

CPU = torch.device("cpu")


def counted(model):
    return flopsight.count(model, (batch(),), train=True)


def everyone():
    """A new process group of all ranks, named in another order."""
    return distributed.new_group(list(reversed(range(distributed.get_world_size()))))


def own_mesh(name=None):
    """A mesh with a process group of its own, as torch makes one for each mesh if a GPU is visible."""
    return DeviceMesh.from_group(everyone(), "cpu", mesh_dim_names=None if name is None else (name,))


def pairs_mesh(*names):
    """The ranks as rows of two."""
    return init_device_mesh("cpu", (distributed.get_world_size() // 2, 2), mesh_dim_names=names)


def sharded(*meshes):
    """A net with its blocks and its root sharded over meshes of their own."""
    model = net()
    for part, mesh in zip((*model, model), meshes, strict=True):
        fully_shard(part, mesh=mesh)
    return counted(model)


def shards_with_a_mesh_per_block():
    return sharded(*(own_mesh("dp") for _ in range(3)))


def shards_after_other_groups():
    """Groups that nothing of the model uses, and the default group for one of its blocks."""
    others = [everyone() for _ in range(3)]
    whole = init_device_mesh("cpu", (distributed.get_world_size(),), mesh_dim_names=("dp",))
    profile = sharded(own_mesh("dp"), whole, own_mesh("dp"))
    del others
    return profile


def shards_without_names():
    return sharded(*(own_mesh() for _ in range(3)))


def shards_with_a_name_per_block():
    return sharded(own_mesh(), own_mesh("data"), own_mesh("replicas"))


def older_shards_with_a_group_per_block():
    blocks = [FullyShardedDataParallel(Pair(), process_group=everyone(), device_id=CPU) for _ in range(2)]
    return counted(FullyShardedDataParallel(nn.Sequential(*blocks), process_group=everyone(), device_id=CPU))


def replicas_with_a_group_per_block():
    return counted(nn.Sequential(*(DistributedDataParallel(Pair(), process_group=everyone()) for _ in range(2))))


def replicas_with_a_mesh_per_block():
    return counted(nn.Sequential(*(DistributedDataParallel(Pair(), device_mesh=own_mesh("dp")) for _ in range(2))))


class Averaging(nn.Module):
    """A net whose output is averaged over all ranks, through a group that is not the wrapper's."""

    def __init__(self):
        super().__init__()
        self.net, self.group = net(), everyone()

    def forward(self, x):
        out = self.net(x)
        distributed.all_reduce(out.detach().clone(), group=self.group)
        return out


def replicas_beside_a_group_for_something_else():
    return counted(DistributedDataParallel(Averaging(), device_mesh=own_mesh("dp")))


def a_mesh_with_dimensions_of_one():
    """Tensor parallel over one rank, pipeline over one rank: names without other ranks behind them."""
    size = distributed.get_world_size()
    mesh = init_device_mesh("cpu", (1, size, 1), mesh_dim_names=("pp", "dp", "tp"))
    model = net()
    for block in model:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["dp"])
    return counted(fully_shard(model, mesh=mesh["dp"]))


def hybrid_with_a_mesh_per_block():
    """Shards within pairs and copies between them; every mesh of two dimensions makes groups of its own."""
    return sharded(*(pairs_mesh("rep", "shard") for _ in range(3)))


def older_hybrid_with_groups_per_block():
    within, between = two_kinds_of_pairs()

    def wrap(module):
        return FullyShardedDataParallel(
            module, process_group=(within(), between()), sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_id=CPU
        )

    return counted(wrap(nn.Sequential(*(wrap(Pair()) for _ in range(2)))))


def two_kinds_of_pairs():
    """Functions that make new groups: of ranks 0 and 1, 2 and 3, and of ranks 0 and 2, 1 and 3."""

    def maker(*pairs):
        return lambda: distributed.new_subgroups_by_enumeration([list(pair) for pair in pairs])[0]

    return maker((0, 1), (2, 3)), maker((0, 2), (1, 3))


def tensor_parallel_and_sharded_with_a_mesh_per_block():
    model = net()
    for block in model:
        mesh = pairs_mesh("dp", "tp")
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["dp"])
    return counted(model)


def tensor_parallel_and_replicas():
    model = net()
    parallelize_module(model[0], pairs_mesh("dp", "tp")["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    _, between = two_kinds_of_pairs()
    model[1] = DistributedDataParallel(model[1], process_group=between())
    return counted(model)


def experts_sharded_over_some_of_the_ranks():
    """Experts divided over pairs and sharded between pairs; everything else is sharded over all ranks."""
    mesh, model = pairs_mesh("edp", "ep"), net()
    parallelize_module(model[1], mesh["ep"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    fully_shard(model[1], mesh=mesh["edp"])
    fully_shard(model[0], mesh=own_mesh("dp"))
    return counted(fully_shard(model, mesh=own_mesh("dp")))


def replicas_in_stages():
    """A pipeline of two stages, each with a copy."""
    within, between = two_kinds_of_pairs()
    stages = within()
    part = DistributedDataParallel(Pair(), process_group=between())
    number = distributed.get_rank(stages)
    stage = PipelineStage(part, number, 2, CPU, group=stages)
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda out, wanted: (out - wanted).pow(2).mean())
    with flopsight.recording(part) as seen:
        schedule.step(batch()) if number == 0 else schedule.step(target=batch())
    return seen.profile


SHARDS = (
    shards_with_a_mesh_per_block, shards_after_other_groups, shards_without_names, shards_with_a_name_per_block,
    a_mesh_with_dimensions_of_one,
)  # fmt: skip
REPLICAS = (
    older_shards_with_a_group_per_block, replicas_with_a_group_per_block, replicas_with_a_mesh_per_block,
    replicas_beside_a_group_for_something_else,
)  # fmt: skip
PAIRS_OF_SHARDS = (
    hybrid_with_a_mesh_per_block, tensor_parallel_and_sharded_with_a_mesh_per_block, experts_sharded_over_some_of_the_ranks,
)  # fmt: skip
PAIRS = (older_hybrid_with_groups_per_block, tensor_parallel_and_replicas)
TWO = (*REPLICAS, *(SHARDS if FSDP2 else ()))
FOUR = (*TWO, *PAIRS, *(PAIRS_OF_SHARDS if FSDP2 else ()), *((replicas_in_stages,) if PIPELINES else ()))
CASES = {case.__name__: case for case in (FOUR if os.environ.get("WORLD_SIZE") == "4" else TWO)}
