"""Four real ranks: meshes of two dimensions, and gatherings to which not every rank comes."""

import pytest
from distributed.nets import PRODUCT
from distributed.processes import checked, run_ranks
from releases import with_fsdp2, with_pipelines


@pytest.fixture(scope="module", name="jobs")
def _jobs():
    return run_ranks("distributed.four_ranks", 4)


def totals(profile):
    return {(row.op, row.dim): (row.calls, row.bytes // row.calls) for row in both_phases(profile)}


def both_phases(profile):
    found = {}
    for row in profile.comm:
        key = row.op, row.dim
        found[key] = found[key] + row if key in found else row
    return found.values()


@with_fsdp2
def test_shards_that_are_copied_too_are_averaged_over_the_copies(jobs):
    for first, second in checked(jobs, "hybrid"):
        assert first.comm == second.comm
        assert totals(first) == {
            ("all_gather", "shard"): (4, 2_048),
            ("reduce_scatter", "shard"): (2, 4_096),
            ("all_reduce", "rep"): (2, 2_048),
        }
        assert (first.world.data_parallel, first.world.model_parallel) == (4, 1)
        assert first.world.mesh == {"rep": 2, "shard": 2}
        assert (first.params, first.whole.params) == (1_024, 2_048)


@with_fsdp2
def test_tensor_parallel_shards_keep_the_two_dimensions_apart(jobs):
    for first, second, _ in checked(jobs, "tensor_parallel_and_sharded"):
        for profile in (first, second):
            assert (profile.params, profile.whole.params) == (512, 2_048)
            assert (profile.macs, profile.whole.macs) == (2 * PRODUCT, 4 * PRODUCT) == (8_192, 16_384)
            assert (profile.backward.macs, profile.whole.backward.macs) == (14_336, 28_672)
            assert totals(profile) == {
                ("all_gather", "dp"): (4, 1_024),
                ("reduce_scatter", "dp"): (2, 2_048),
                # one a Pair forward, and one for the gradient of the second Pair's input
                ("all_reduce", "tp"): (3, 512),
            }
            assert profile.world.mesh == {"dp": 2, "tp": 2}
            assert (profile.world.data_parallel, profile.world.model_parallel) == (2, 2)


@with_fsdp2
def test_weights_kept_in_halves_are_gathered_within_pairs(jobs):
    for first, second in checked(jobs, "kept_in_halves"):
        assert first.comm == second.comm
        assert {(row.op, row.phase, row.group_size): (row.calls, row.bytes // row.calls) for row in first.comm} == {
            ("all_gather", "forward", 4): (2, 1_024),  # a quarter of a Pair's 4,096 bytes
            ("all_gather", "backward", 2): (2, 2_048),
            ("reduce_scatter", "backward", 4): (2, 4_096),
        }
        assert (first.params, first.whole.params) == (512, 2_048)


@with_fsdp2
@with_pipelines
def test_a_sharded_stage_scatters_its_gradients_in_backward(jobs):
    found = checked(jobs, "sharded_stages")
    for first, second, _ in found:
        assert first.comm == second.comm
        rows = {(row.op, row.phase): (row.calls, row.bytes) for row in first.comm if row.dim == "dp"}
        # a pipeline scatters once, when the last microbatch is over
        assert rows[("reduce_scatter", "backward")] == (1, 4_096)
        assert {phase for _, phase in rows} == {"forward", "backward"}
        assert (first.world.pipeline, first.world.data_parallel) == (2, 2)
    job = found[0][2]
    assert (job.whole.params, job.whole.macs) == (2_048, 4 * PRODUCT)


@with_fsdp2
def test_four_ranks_gather_to_one_job(jobs):
    first, *others = [job for _, _, job in checked(jobs, "tensor_parallel_and_sharded")]

    assert others == [None, None, None]
    assert (sorted(first.ranks), first.missing) == ([0, 1, 2, 3], ())
    assert (first.whole.params, first.whole.macs) == (2_048, 16_384)
    assert first.imbalance("flops") == 0.0


def test_a_rank_that_comes_late_is_named_and_welcome_the_next_time(jobs):
    (first, second), *others = checked(jobs, "late")

    assert first.missing == (2,)
    assert first.problems == {2: "it did not arrive within 0.5 s."}
    assert second.missing == ()
    assert others == [(None, None)] * 3


def test_a_rank_that_dies_is_named_and_no_other_waits(jobs):
    job, *others = checked(jobs, "one_dies")

    assert (sorted(job.ranks), job.missing) == ([0, 1, 2], (3,))
    assert others == [None, None, None]
