"""Two and four real ranks: process groups over the same ranks are one axis, however many there are and whatever their names."""

import pytest
from distributed.processes import checked, run_ranks
from releases import with_fsdp2, with_pipelines

SHARDED = dict.fromkeys(["shards_with_a_mesh_per_block", "shards_after_other_groups"], "dp") | {
    "shards_without_names": None,
    "shards_with_a_name_per_block": "data",  # the first block has no name for its ranks, the next one has
}
REPLICATED = {
    "older_shards_with_a_group_per_block": None,
    "replicas_with_a_group_per_block": None,
    "replicas_with_a_mesh_per_block": "dp",
    "replicas_beside_a_group_for_something_else": "dp",
}


@pytest.fixture(scope="module", name="jobs")
def _jobs():
    return {size: run_ranks("distributed.groups", size) for size in (2, 4)}


def ways(profile):
    return profile.world.data_parallel, profile.world.model_parallel


def exchanges(profile):
    return {(row.op, row.group_size, row.dim) for row in profile.comm}


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(
    ("case", "name"), [*(pytest.param(*case, marks=with_fsdp2) for case in SHARDED.items()), *REPLICATED.items()]
)
def test_groups_of_all_ranks_are_one_axis(jobs, case, name, size):
    for rank, profile in enumerate(checked(jobs[size], case)):
        assert (profile.world.size, profile.world.rank) == (size, rank)
        assert ways(profile) == (size, 1)
        assert profile.world.mesh == ({name: size} if name else {})
        assert {(row.group_size, row.dim) for row in profile.comm} == {(size, name)}


@with_fsdp2
@pytest.mark.parametrize("size", [2, 4])
def test_dimensions_of_one_rank_keep_their_names_and_multiply_nothing(jobs, size):
    for profile in checked(jobs[size], "a_mesh_with_dimensions_of_one"):
        assert ways(profile) == (size, 1)
        assert profile.world.mesh == {"dp": size, "tp": 1}
        assert {(op, dim) for op, over, dim in exchanges(profile) if over == size} == {
            ("all_gather", "dp"), ("reduce_scatter", "dp"),
        }  # fmt: skip
        assert {dim for _, over, dim in exchanges(profile) if over == 1} <= {"tp"}


@with_fsdp2
def test_shards_and_copies_with_a_mesh_per_block_are_two_axes(jobs):
    for profile in checked(jobs[4], "hybrid_with_a_mesh_per_block"):
        assert ways(profile) == (4, 1)
        assert profile.world.mesh == {"rep": 2, "shard": 2}
        assert exchanges(profile) == {
            ("all_gather", 2, "shard"), ("reduce_scatter", 2, "shard"), ("all_reduce", 2, "rep"),
        }  # fmt: skip


def test_older_shards_and_copies_with_groups_per_block_are_two_axes(jobs):
    for profile in checked(jobs[4], "older_hybrid_with_groups_per_block"):
        assert ways(profile) == (4, 1)
        assert exchanges(profile) == {("all_gather", 2, None), ("reduce_scatter", 2, None), ("all_reduce", 2, None)}


@with_fsdp2
def test_tensor_parallel_shards_with_a_mesh_per_block_are_two_axes(jobs):
    for profile in checked(jobs[4], "tensor_parallel_and_sharded_with_a_mesh_per_block"):
        assert ways(profile) == (2, 2)
        assert profile.world.mesh == {"dp": 2, "tp": 2}
        assert exchanges(profile) == {("all_gather", 2, "dp"), ("reduce_scatter", 2, "dp"), ("all_reduce", 2, "tp")}


def test_replicas_beside_tensor_parallel_layers_are_two_axes(jobs):
    for profile in checked(jobs[4], "tensor_parallel_and_replicas"):
        assert ways(profile) == (2, 2)
        assert profile.world.mesh == {"tp": 2}
        assert exchanges(profile) == {("all_reduce", 2, "tp"), ("all_reduce", 2, None)}


@with_fsdp2
def test_experts_over_some_of_the_data_parallel_ranks_multiply_nothing(jobs):
    for profile in checked(jobs[4], "experts_sharded_over_some_of_the_ranks"):
        assert ways(profile) == (4, 1)
        assert profile.world.mesh == {"edp": 2, "ep": 2, "dp": 4}
        assert {(size, dim) for _, size, dim in exchanges(profile)} == {(4, "dp"), (2, "edp"), (2, "ep")}


@with_pipelines
def test_replicas_in_stages_are_as_many_as_their_group(jobs):
    for profile in checked(jobs[4], "replicas_in_stages"):
        assert ways(profile) == (2, 2)
        assert (profile.world.pipeline, profile.world.size) == (2, 4)
