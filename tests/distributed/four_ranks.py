"""What four ranks do in one job; each case returns profiles, which the tests look at."""

import os

import torch
from distributed.nets import Pair, batch, net
from releases import FSDP2, PIPELINES
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import flopsight


def sharded(model, mesh, **options):
    for block in model:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh)


def hybrid():
    """Shards within a pair of ranks, copies of them in the other pair."""
    model, x = sharded(net(), init_device_mesh("cpu", (2, 2), mesh_dim_names=("rep", "shard"))), batch()
    return flopsight.count(model, (x,), train=True), flopsight.count(model, (x,), train=True)


def tensor_parallel_and_sharded():
    mesh, model, x = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")), net(), batch()
    for block in model:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    sharded(model, mesh["dp"])
    first, second = flopsight.count(model, (x,), train=True), flopsight.count(model, (x,), train=True)
    return first, second, flopsight.gather(first)


def kept_in_halves():
    """After forward every pair of ranks keeps the weights, a half each, so that backward gathers within pairs."""
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("dp",))
    model, x = sharded(net(), mesh, reshard_after_forward=2), batch()
    return flopsight.count(model, (x,), train=True), flopsight.count(model, (x,), train=True)


def sharded_stages():
    """A pipeline of two stages, each sharded over two ranks."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    number, part = mesh["pp"].get_local_rank(), sharded(nn.Sequential(Pair()), mesh["dp"])
    stage = PipelineStage(part, number, 2, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda out, wanted: (out - wanted).pow(2).mean())
    profiles = []
    for _ in range(2):
        with flopsight.recording(part) as seen:
            schedule.step(batch()) if number == 0 else schedule.step(target=batch())
        profiles.append(seen.profile)
    return *profiles, flopsight.gather(profiles[0])


def late():
    """Rank 2 comes when the first gathering is over; every rank counts its gatherings, so the second is complete."""
    rank, store = distributed.get_rank(), distributed.distributed_c10d._get_default_store()
    profile = flopsight.count(Pair(), (batch(),))
    waits_for = {0: ["rank 1 is there", "rank 3 is there"], 2: ["the first is over"]}  # however busy the machine is
    store.wait(waits_for.get(rank, []))
    first = flopsight.gather(profile, timeout=0.5)
    store.set(f"rank {rank} is there", "yes")
    if rank == 0:
        store.set("the first is over", "yes")
    return first, flopsight.gather(profile)


def one_dies():
    """Rank 3 ends without a word; the others do not wait for it longer than they were told to."""
    profile = flopsight.count(Pair(), (batch(),))
    if distributed.get_rank() == 3:
        os._exit(0)
    return flopsight.gather(profile, timeout=2)


SHARDS = {
    "hybrid": hybrid,
    "tensor_parallel_and_sharded": tensor_parallel_and_sharded,
    "kept_in_halves": kept_in_halves,
    **({"sharded_stages": sharded_stages} if PIPELINES else {}),
}
CASES = {**(SHARDS if FSDP2 else {}), "late": late, "one_dies": one_dies}
