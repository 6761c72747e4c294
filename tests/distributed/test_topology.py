"""Which of how many processes this is, and how many of them take batches of their own."""

import pytest
import torch
from releases import with_fsdp2
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from flopsight.distributed.topology import world_of
from flopsight.results.world import World


@pytest.fixture(name="third_of_six")
def _third_of_six():
    """A process group without other processes: what it sends goes nowhere."""
    distributed.init_process_group("fake", store=FakeStore(), rank=2, world_size=6)
    yield
    distributed.destroy_process_group()


def test_a_process_by_itself_is_a_world_of_one():
    assert world_of([nn.Linear(2, 2)]) == World(size=1, rank=0)


def test_before_torch_is_told_it_is_what_torchrun_says(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")

    assert world_of([nn.Linear(2, 2)]) == World(size=4, rank=1)


def test_processes_without_a_parallel_model_share_no_batch_that_we_know_of(third_of_six):
    assert world_of([nn.Linear(2, 2)]) == World(size=6, rank=2, data_parallel=1)


def test_every_process_of_ddp_has_a_batch_of_its_own(third_of_six):
    loss, model = nn.CrossEntropyLoss(), DistributedDataParallel(nn.Linear(2, 2))

    assert world_of([loss, model]) == World(size=6, rank=2, data_parallel=6)


def test_ddp_over_some_of_the_processes_is_as_wide_as_its_group(third_of_six):
    group = distributed.new_group([2, 5])

    assert world_of([DistributedDataParallel(nn.Linear(2, 2), process_group=group)]).data_parallel == 2


@with_fsdp2
def test_what_is_sharded_over_a_mesh_of_one_dimension_is_data_parallel(third_of_six):
    model = fully_shard(nn.Linear(6, 6), mesh=init_device_mesh("cpu", (6,)))

    assert world_of([model]) == World(size=6, rank=2, data_parallel=6, sharded=True)


def test_the_older_sharding_wrapper_is_known_too(third_of_six):
    model = FullyShardedDataParallel(nn.Linear(6, 6), device_id=torch.device("cpu"))

    assert world_of([model]) == World(size=6, rank=2, data_parallel=6, sharded=True)


def test_a_script_that_has_destroyed_its_groups_was_still_data_parallel(monkeypatch):
    distributed.init_process_group("fake", store=FakeStore(), rank=2, world_size=6)
    model = DistributedDataParallel(nn.Linear(2, 2))
    distributed.destroy_process_group()
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "6")

    assert world_of([model]) == World(size=6, rank=2, data_parallel=6)
