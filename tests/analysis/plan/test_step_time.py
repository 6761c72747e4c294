"""The predicted step, held against sums that are written out here."""

from dataclasses import replace

import pytest
from analysis.plan.cases import BLOCK, MACHINE, REST, SHARES, WORK, case, pointwise

from flopsight.analysis.plan.step_time import blocks_a_stage, kernels, predict_step, uncovered
from flopsight.results.costs import Cost, OpRow


def without_update(parts):
    return {name: seconds for name, seconds in parts.items() if name != "optimizer"}


def test_one_gpu_runs_every_block_and_the_rest_once_a_micro_batch():
    parts = predict_step(WORK, case(accumulate=3), MACHINE)

    assert without_update(parts) == pytest.approx({"products": 3 * (4 * 3 + 1.5)})


def test_the_update_moves_weights_gradients_and_two_moments():
    seconds = predict_step(WORK, case(), MACHINE)["optimizer"]

    # read weight, gradient and two moments, write weight and moments: seven times 4 bytes of 6 million parameters
    assert seconds == pytest.approx(7 * 4 * 6e6 / 1e11)


def test_kernels_are_divided_by_the_share_of_their_kind():
    slow = replace(MACHINE, shares=replace(SHARES, products=0.25))

    assert kernels(BLOCK, ("forward",), case(), slow) == pytest.approx({"products": 2.0})


def test_convolutions_reach_a_share_of_their_limit_and_batch_norm_one_of_the_bandwidth():
    wide = OpRow("aten.convolution", "forward", 1, Cost(macs=10**12, bytes=1), dtype="bfloat16", kind="matrix")
    thin = OpRow("aten.convolution", "forward", 1, Cost(macs=1, bytes=10**11), dtype="bfloat16", kind="matrix")
    norm = OpRow("aten.native_batch_norm", "forward", 1, Cost(bytes=10**11), dtype="bfloat16", kind="other")
    part = replace(BLOCK, rows=(wide, thin, norm))

    # limits of 2 s and 1 s at half, and 1 s at a tenth
    assert kernels(part, ("forward",), case(), MACHINE) == pytest.approx({"convolutions": 6.0, "other kernels": 10.0})


def test_some_kinds_of_ops_reach_a_part_of_the_share_and_every_kernel_takes_a_moment():
    parted = replace(SHARES, memory=0.5, parts={"norm": 0.25, "stem convolution": 0.5, "odd matmul": 0.1})
    shapes = {"norm": (((8, 1024),),), "stem": (((8, 3, 32, 32), (64, 3, 7, 7)),), "odd": (((64, 64), (64, 127)),)}
    norm = OpRow("aten.native_layer_norm", "forward", 2, Cost(bytes=10**11), shapes=shapes["norm"], kind="other")
    stem = OpRow("aten.convolution", "forward", 1, Cost(macs=1, bytes=10**11), shapes=shapes["stem"], kind="matrix")
    odd = OpRow("aten.mm", "forward", 1, Cost(macs=5 * 10**11, bytes=1), shapes=shapes["odd"], kind="matrix")
    plain = pointwise("forward", 1.0)
    part = replace(BLOCK, rows=(norm, stem, odd, plain))

    found = kernels(part, ("forward",), case(), replace(MACHINE, shares=parted, kernel=0.25))

    # limits of a second each: over 1/2 * 1/4, 1/2 * 1/2, 1/2 * 1/10 and 1/2, and a quarter of a second for each call
    assert found == pytest.approx({"other kernels": 8 + 2 + 3 * 0.25, "convolutions": 4.25, "products": 20.25})


def test_a_compiler_leaves_a_part_of_pointwise_bytes():
    part = replace(BLOCK, rows=(pointwise("forward", 3.0),))

    eager = kernels(part, ("forward",), case(), MACHINE)
    fused = kernels(part, ("forward",), case(compile=True), MACHINE)

    assert eager == pytest.approx({"other kernels": 3.0})
    assert fused == pytest.approx({"other kernels": 1.0})


def test_the_host_binds_what_it_cannot_hand_over_faster():
    slow = replace(MACHINE, launch=1.5)

    assert kernels(BLOCK, ("forward",), case(), slow) == pytest.approx({"products": 1.0, "host": 0.5})


def test_tensor_parallel_divides_the_work_and_shows_its_all_reduces():
    parts = without_update(predict_step(WORK, case({"tp": 4}), MACHINE))

    # an all-reduce sends 2 x 3/4 of 1 GB at 100 GB/s; two a pass of each of four blocks
    assert parts == pytest.approx({"products": 13.5 / 4, "tensor parallel": 4 * 4 * 1.5 * 1e9 / 1e11})


def test_full_checkpointing_repeats_the_all_reduces_of_forward():
    parts = predict_step(WORK, case({"tp": 4}, checkpoint="full"), MACHINE)

    assert parts["tensor parallel"] == pytest.approx(4 * 6 * 1.5 * 1e9 / 1e11)


def test_sharding_shows_the_first_gather_and_what_compute_does_not_cover():
    parts = predict_step(WORK, case({"fsdp": 4}), MACHINE)

    block, rest = (2 * params * 3 / 4 / 1e11 for params in (1e6, 2e6))
    # blocks are covered by seconds of compute; the first gather, the last reduction and the root's own are not
    assert parts["sharding"] == pytest.approx(2 * block + 2 * rest)


def test_gathers_longer_than_the_compute_beside_them_are_paid():
    wide = replace(WORK, blocks=(replace(BLOCK, params=10**12),))

    parts = predict_step(wide, case({"fsdp": 4}), MACHINE)

    gather = 2 * 1e12 * 3 / 4 / 1e11
    covered = 4 * (gather - 1.0) + 4 * (2 * gather - 2.0)
    assert parts["sharding"] == pytest.approx(covered + 2 * gather + 2 * 2 * 2e6 * 3 / 4 / 1e11)


def test_without_resharding_backward_gathers_nothing():
    wide = replace(WORK, blocks=(replace(BLOCK, params=10**12),))

    freed, kept = (
        predict_step(wide, case({"fsdp": 4}, fsdp={"reshard": again}), MACHINE)["sharding"] for again in (True, False)
    )

    assert freed - kept == pytest.approx(4 * 2 * 1e12 * 3 / 4 / 1e11)


@pytest.mark.parametrize(("chunks", "bubble"), [(1, 3.0), (2, 1.5)])
def test_the_bubble_is_that_of_one_forward_one_backward(chunks, bubble):
    even = replace(WORK, rest=replace(REST, rows=()), handed_on=0, blocks=(replace(BLOCK, count=8),))

    parts = predict_step(even, case({"pp": 4}, accumulate=12), replace(MACHINE, chunks=chunks))

    # two blocks a stage take 6 s a micro-batch; (p - 1) / v stages of it pass before and after all are at work
    assert parts["products"] == pytest.approx(12 * 6)
    assert parts["pipeline"] == pytest.approx(bubble * 6)


@pytest.mark.parametrize(("chunks", "micro_batches", "bubble"), [(2, 1, 3.0), (2, 3, 2.0), (1, 1, 3.0), (1, 2, 3.0)])
def test_fewer_micro_batches_than_stages_leave_stages_idle_however_many_parts_they_have(chunks, micro_batches, bubble):
    even = replace(WORK, rest=replace(REST, rows=()), handed_on=0, blocks=(replace(BLOCK, count=8),))

    parts = predict_step(even, case({"pp": 4}, accumulate=micro_batches), replace(MACHINE, chunks=chunks))

    # one micro-batch passes four stages of 6 s one after the other; each further one ends a part of a stage, 6 s / v, later
    assert parts["products"] == pytest.approx(micro_batches * 6)
    assert parts["pipeline"] == pytest.approx(bubble * 6)
    assert sum(without_update(parts).values()) == pytest.approx((4 + (micro_batches - 1) / chunks) * 6)


@pytest.mark.parametrize(
    ("depth", "stages", "blocks"),
    [
        (126, 16, (7, 8, 7)),  # 128 layers, 8 each: the embedding and 7 blocks, 8 blocks, 7 blocks and the head
        (80, 8, (10, 10, 10)),
        (5, 2, (3, 2)),  # 7 layers, 4 and 3: the embedding and 3 blocks, 2 blocks and the head
        (6, 5, (1, 2, 0)),  # 8 layers, 2, 2, 2, 1 and 1
        (7, 4, (2, 2, 1)),  # 9 layers, 3, 2, 2 and 2
    ],
)
def test_embedding_and_head_count_as_layers_if_blocks_cannot_be_even(depth, stages, blocks):
    assert blocks_a_stage(depth, stages) == blocks


def test_of_five_blocks_on_two_stages_three_set_the_pace():
    uneven = replace(WORK, handed_on=0, blocks=(replace(BLOCK, count=5),))

    parts = predict_step(uneven, case({"pp": 2}, accumulate=12), MACHINE)

    # 3 blocks of 3 s, which is more than 2 blocks and the 1.5 s of the head
    assert parts["products"] == pytest.approx(12 * 3 * 3)


def test_replicas_average_gradients_behind_the_last_backward():
    wide = replace(WORK, blocks=(replace(BLOCK, params=10**12),))

    parts = predict_step(wide, case({"dp": 8}), MACHINE)

    whole = 2 * 7 / 8 * 4 * (4e12 + 2e6) / 1e11
    assert parts["data parallel"] == pytest.approx(whole - 4 * 2.0 + whole / 4)


def test_what_runs_side_by_side_pays_a_share_of_the_shorter():
    assert uncovered(4.0, 1.0, 0.25) == 0.25
    assert uncovered(1.0, 4.0, 0.25) == 3.25


def test_parts_that_four_ranks_keep_are_gathered_from_those_in_backward():
    wide = replace(WORK, blocks=(replace(BLOCK, params=10**12),))

    freed, parted = (
        predict_step(wide, case({"fsdp": 16}, fsdp={"reshard": again}), MACHINE)["sharding"] for again in (True, 4)
    )

    between_nodes, inside = 2 * 1e12 * 15 / 16 / 8e10, 2 * 1e12 * 3 / 4 / 1e11
    assert freed - parted == pytest.approx(4 * (between_nodes - inside))


def test_ranks_of_experts_average_everything_but_experts():
    experts = replace(WORK, blocks=(replace(BLOCK, params=10**9, experts=8 * 10**8),), rest=replace(REST, params=0))
    no_overlap = replace(MACHINE, shares=replace(MACHINE.shares, overlap=1.0))

    parts = predict_step(experts, case({"ep": 4}), no_overlap)

    whole = 2 * 3 / 4 * 4 * (4 * 2 * 10**8) / 1e11  # gradients of four blocks in float32
    assert parts["data parallel"] == pytest.approx(whole + whole / 4)


def test_a_token_is_sent_to_as_many_experts_as_its_router_chooses():
    wide = replace(WORK, experts_a_token=8, blocks=(replace(BLOCK, experts=8 * 10**5),))

    parts = predict_step(wide, case({"fsdp": 2, "ep": 4}), MACHINE)

    # four ranks have a quarter of 1 GB each, and send 3/4 of it eight times; there and back, in two passes of four blocks
    assert parts["expert parallel"] == pytest.approx(4 * 2 * 2 * 8 * 3 / 4 * 0.25e9 / 1e11)


@pytest.mark.parametrize("accumulate", [4, 64])
def test_stages_of_replicated_shards_average_gradients_once_a_step(accumulate):
    wide = replace(WORK, blocks=(replace(BLOCK, params=10**9),), rest=replace(REST, params=0), ends=(0, 0))
    slow = replace(MACHINE, shares=replace(SHARES, between_nodes=0.08))  # 10 MB/s for each network card

    parts = predict_step(wide, case({"pp": 2, "dp": 8, "fsdp": 2}, accumulate=accumulate), slow)

    handed_in = 2 * 2 * 10**9 / 2  # two blocks in bfloat16, half of each on a rank
    averaged = 2 * 7 / 8 * handed_in / slow.rate(8, 2)
    assert averaged > 30, "far more than a stage's 6 s cover"
    # what is not behind the stage, and one block of two at the end; the exchange inside a node is below a second
    assert parts["sharding"] == pytest.approx(averaged - 6 + averaged / 2, abs=2)
