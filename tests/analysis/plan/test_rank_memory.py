"""Memory by kind of the fullest GPU, held against sums that are written out here."""

from dataclasses import replace

import pytest
from analysis.plan.cases import BLOCK, MACHINE, WORK, case

from flopsight.analysis.plan.rank_memory import rank_memory

PARAMS = 6_000_000
SAVED = 4 * 1000 + 500
LARGE = replace(WORK, alive=10**9)
"""Its peak is at the start of backward."""


def test_one_gpu_holds_sixteen_bytes_a_parameter_and_a_copy_to_compute_with():
    memory = rank_memory(WORK, case(accumulate=2), MACHINE)

    assert memory["parameters"] + memory["optimizer"] + memory["gradients"] == 16 * PARAMS
    assert memory["gathered"] == 2 * PARAMS


@pytest.mark.parametrize(
    ("changes", "each"),
    [
        ({"precision": "pure-bf16"}, 8),
        ({"optimizer": "adam8bit"}, 10),
        ({"optimizer": "adam8bit", "precision": "pure-bf16"}, 6),
        ({"optimizer": "sgd"}, 8),
        ({"precision": "fp32"}, 16),
    ],
)
def test_precision_and_optimizer_decide_the_bytes_of_a_parameter(changes, each):
    memory = rank_memory(WORK, case(accumulate=2, **changes), MACHINE)

    lasting = sum(size for kind, size in memory.items() if kind in ("parameters", "optimizer", "gradients"))
    assert lasting == each * PARAMS


def test_shards_divide_what_lasts_and_gather_the_root_and_a_block():
    memory = rank_memory(LARGE, case({"fsdp": 8}, accumulate=2), MACHINE)

    assert memory["parameters"] == 4 * PARAMS // 8
    assert memory["gathered"] == 2 * (2_000_000 + 1_000_000), "in bfloat16"


def test_without_resharding_all_weights_are_gathered():
    memory = rank_memory(LARGE, case({"fsdp": 8}, accumulate=2, fsdp={"reshard": False}), MACHINE)

    assert memory["gathered"] == 2 * PARAMS


def test_of_gathered_weights_each_of_four_ranks_keeps_a_part():
    memory = rank_memory(LARGE, case({"fsdp": 8}, accumulate=2, fsdp={"reshard": 4}), MACHINE)

    running = 2_000_000 + 1_000_000
    assert memory["gathered"] == 2 * (running + (PARAMS - running) // 4)


def test_ranks_of_experts_shard_what_is_not_an_expert_among_all_of_them():
    experts = replace(WORK, blocks=(replace(BLOCK, experts=800_000),))

    memory = rank_memory(experts, case({"fsdp": 2, "ep": 4}, accumulate=2), MACHINE)

    held = (PARAMS - 4 * 800_000) // 8 + 4 * 800_000 // 4 // 2
    assert (memory["parameters"], memory["optimizer"]) == (4 * held, 8 * held)


def test_offloading_leaves_what_is_computed_with():
    memory = rank_memory(WORK, case({"fsdp": 8}, accumulate=2, fsdp={"offload": True}), MACHINE)

    assert not {"parameters", "optimizer", "gradients"} & set(memory)


def test_at_the_start_of_backward_every_block_has_kept_its_part():
    large = replace(WORK, alive=10**9 + SAVED, rest=replace(WORK.rest, params=0), blocks=(replace(BLOCK, params=1),))

    memory = rank_memory(large, case({"tp": 2}), MACHINE)

    assert (memory["activations"], memory["temporaries"]) == (SAVED // 2, 10**9 // 2)
    assert "gradients" not in memory, "the first micro-batch has none before backward"


def test_the_first_stage_of_a_pipeline_keeps_a_micro_batch_for_every_stage():
    memory = rank_memory(replace(WORK, ends=(2_000_000, 0)), case({"pp": 4}, accumulate=16), MACHINE)

    assert memory["activations"] == 4 * 1 * 1000


@pytest.mark.parametrize(("ends", "fullest"), [((1_500_000, 500_000), 1_500_000), ((0, 2_000_000), 2_000_000)])
def test_the_fullest_stage_of_a_pipeline_holds_its_blocks_and_the_embedding_or_the_head(ends, fullest):
    memory = rank_memory(replace(WORK, ends=ends), case({"pp": 2}, accumulate=8), MACHINE)

    held = 2 * 1_000_000 + fullest
    assert (memory["parameters"], memory["optimizer"]) == (4 * held, 8 * held)


def test_the_embedding_counts_as_a_layer_of_an_uneven_first_stage():
    uneven = replace(WORK, ends=(1_500_000, 500_000), blocks=(replace(BLOCK, count=5),))
    memory = rank_memory(uneven, case({"pp": 2}, accumulate=8), MACHINE)

    held = 3 * 1_000_000 + 1_500_000  # the embedding and three blocks; the other stage has two blocks and the head
    assert (memory["parameters"], memory["activations"]) == (4 * held, 2 * 3 * 1000)


@pytest.mark.parametrize(("accumulate", "running"), [(8, 1.5), (1, 1)])
def test_the_last_stage_of_an_interleaved_pipeline_keeps_several_micro_batches(accumulate, running):
    """With two parts a stage it runs its first part for two micro-batches and its second for one before a backward."""
    two_parts = replace(MACHINE, chunks=2)
    memory = rank_memory(replace(LARGE, ends=(0, 2_000_000)), case({"pp": 2}, accumulate=accumulate), two_parts)

    assert memory["activations"] == running * 2 * 1000 + 500
    assert memory["temporaries"] == 10**9 - SAVED


def test_what_is_gathered_is_at_most_the_model_and_its_gradients():
    memory = rank_memory(WORK, case({"fsdp": 4}, accumulate=2, fsdp={"wrap": 1000}), MACHINE)

    assert memory["gathered"] == 2 * PARAMS + 2 * PARAMS
