"""Two real ranks: what each does, what the whole is, and what travels between them. X = 8 x 16 x 32 = 4,096 MACs a layer."""

import pytest
from distributed.nets import PRODUCT, TOKENS, VOCABULARY, WIDTH
from distributed.processes import checked, run_ranks
from releases import TORCH, with_fsdp2, with_pipelines

from flopsight.analysis.compare import compare

FLOAT = 4
SAME_PEAK = ("tensor_parallel", "tensor_parallel_training", "fsdp2", "fsdp2_with_optimizer", "fsdp2_bf16", "ddp")
"""Elsewhere the peak lies right behind a collective, whose tensors gloo's own thread may hold a moment longer."""


@pytest.fixture(scope="module", name="jobs")
def _jobs():
    return run_ranks("distributed.two_ranks", 2)


def rows(profile, *fields):
    """Communication as plain tuples, sorted."""
    return sorted((node.path, *(getattr(row, name) for name in fields)) for node in profile.walk() for row in node.comm)


def test_every_case_ran(jobs):
    for name in jobs:
        checked(jobs, name)


@pytest.mark.parametrize(
    "case",
    [
        "tensor_parallel", "tensor_parallel_training", "fsdp1", "fsdp1_orig_params", "ddp", "sequence_and_loss_parallel", "experts",
        *(pytest.param(case, marks=with_fsdp2) for case in ("fsdp2", "fsdp2_with_optimizer", "fsdp2_bf16", "fsdp2_kept_whole")),
        pytest.param("pipeline", marks=with_pipelines),
    ],
)  # fmt: skip
def test_the_first_call_shows_what_the_second_shows(jobs, case):
    for first, second, *_ in checked(jobs, case):
        assert first.macs == second.macs
        assert first.flops == second.flops
        assert first.backward == second.backward
        assert first.activation_bytes == second.activation_bytes
        if case in SAME_PEAK:
            assert (first.peak_bytes, first.at_peak) == (second.peak_bytes, second.at_peak)
        assert first.whole == second.whole
        assert first.comm == second.comm


def test_tensor_parallel_halves_the_work_and_knows_the_whole(jobs):
    for rank, (profile, _) in enumerate(checked(jobs, "tensor_parallel")):
        assert (profile.macs, profile.whole.macs) == (PRODUCT, 2 * PRODUCT) == (4_096, 8_192)
        assert (profile.params, profile.whole.params) == (512, 1_024)
        assert (profile.world.size, profile.world.rank, profile.world.mesh) == (2, rank, {"tp": 2})
        assert (profile.world.data_parallel, profile.world.model_parallel) == (1, 2)
        # the halves of the second product are added up: 8 x 16 floats
        (row,) = profile["down"].comm
        assert (row.op, row.phase, row.calls, row.bytes, row.dim) == ("all_reduce", "forward", 1, 512, "tp")
        assert row.wire_bytes == 2 * 512 * 1 // 2


def test_tensor_parallel_training_leaves_the_weights_and_counts_this_ranks_state(jobs):
    for profile, _, same, states in checked(jobs, "tensor_parallel_training"):
        # of four gradient products three are made (the input needs none), each half as large here
        assert (
            (profile.backward.macs, profile.whole.backward.macs) == (3 * PRODUCT // 2, 3 * PRODUCT) == (6_144, 12_288)
        )
        # two moments for 512 parameters, and a step count for each of two tensors
        assert profile.root.optimizer_bytes == 2 * 512 * FLOAT + 2 * FLOAT == 4_104
        assert profile.at_peak["optimizer"] == 4_104
        assert profile.at_peak["parameters"] == profile.at_peak["gradients"] == 512 * FLOAT
        assert "gathered" not in profile.at_peak
        assert same, "the weights changed"
        assert states == 0


@with_fsdp2
def test_sharded_blocks_gather_and_scatter_their_own_parameters(jobs):
    for profile, _ in checked(jobs, "fsdp2"):
        assert (profile.params, profile.whole.params) == (1_024, 2_048)
        assert profile.macs == profile.whole.macs == 4 * PRODUCT
        assert profile.backward.macs == profile.whole.backward.macs == 7 * PRODUCT
        # inputs of four products and two ReLU outputs, less the model's own input: 512 + 2 x 1,024
        assert profile.activation_bytes == profile.whole.activation_bytes == 2_560
        shard, whole = 2_048, 4_096  # bytes of half a Pair, and of a Pair
        assert rows(profile, "op", "phase", "calls", "bytes", "dim") == [
            (block, *row)
            for block in ("0", "1")
            for row in (
                ("all_gather", "backward", 1, shard, "dp"),
                ("all_gather", "forward", 1, shard, "dp"),
                ("reduce_scatter", "backward", 1, whole, "dp"),
            )
        ]
        # either way a rank sends what the other lacks: one shard
        assert {row.wire_bytes // row.calls for row in profile.comm} == {shard}
        assert profile.world.sharded
        assert profile.world.data_parallel == 2


@with_fsdp2
def test_memory_of_sharded_blocks_is_shards_gradients_and_gathered_weights(jobs):
    for profile, _ in checked(jobs, "fsdp2"):
        # At the peak block 0 is gathered for its backward (4,096 bytes, and the buffer that they came in), while the
        # gradients of block 1 have just been scattered: the buffer of 4,096 they left in, and this rank's 2,048.
        assert profile.at_peak["parameters"] == 1_024 * FLOAT
        assert profile.at_peak["gathered"] == 2 * 4_096
        assert profile.at_peak["gradients"] == 2_048
        assert profile.at_peak["activations"] == 1_024  # the ReLU output of block 0
        # the buffer of the scatter, the model's output and the gradient of block 1's input, and two scalars
        assert profile.at_peak["temporaries"] == 4_096 + 512 + 512 + 8
        assert profile.peak_bytes == sum(profile.at_peak.values()) == 21_000


@with_fsdp2
def test_optimizer_state_of_shards_is_this_ranks(jobs):
    for profile, _ in checked(jobs, "fsdp2_with_optimizer"):
        assert profile.root.optimizer_bytes == 2 * 1_024 * FLOAT + 4 * FLOAT == 8_208
        assert profile.at_peak["optimizer"] == 8_208


@with_fsdp2
def test_a_precision_policy_halves_what_travels(jobs):
    for profile, _ in checked(jobs, "fsdp2_bf16"):
        assert {row.bytes // row.calls for row in profile.comm if row.op == "all_gather"} == {1_024}
        assert {row.bytes // row.calls for row in profile.comm if row.op == "reduce_scatter"} == {2_048}


@with_fsdp2
def test_a_precision_policy_for_weights_alone_reduces_gradients_as_this_torch_does(jobs):
    for profile, _ in checked(jobs, "fsdp2_bf16_weights"):
        assert {row.bytes // row.calls for row in profile.comm if row.op == "all_gather"} == {1_024}
        # 1,024 gradients a Pair: in the weights' bfloat16, since 2.15 in the parameters' own float32
        sent = 1_024 * (FLOAT if TORCH >= (2, 15) else 2)
        assert {row.bytes // row.calls for row in profile.comm if row.op == "reduce_scatter"} == {sent}


@with_fsdp2
def test_weights_that_stay_whole_are_gathered_once(jobs):
    for profile, _ in checked(jobs, "fsdp2_kept_whole"):
        assert sum(row.calls for row in profile.comm if row.op == "all_gather") == 2
        assert {row.phase for row in profile.comm if row.op == "all_gather"} == {"forward"}


@with_fsdp2
def test_a_recording_of_shards_knows_their_whole_parameters(jobs):
    for profile in checked(jobs, "fsdp2_recorded"):
        assert (profile.params, profile.whole.params, profile.activation_bytes) == (1_024, 2_048, 2_560)


@pytest.mark.parametrize("case", ["fsdp1", "fsdp1_orig_params"])
def test_the_older_sharding_wrapper_shows_the_whole_model_too(jobs, case):
    for profile, _ in checked(jobs, case):
        assert (profile.params, profile.whole.params) == (1_024, 2_048)
        assert profile.whole.macs == 4 * PRODUCT
        assert profile.activation_bytes == 2_560
        assert {(row.op, row.calls, row.bytes // row.calls) for row in profile.comm} == {
            ("all_gather", 2, 2_048), ("reduce_scatter", 2, 4_096),
        }  # fmt: skip
        assert profile["0.up"].macs == PRODUCT, "the wrapper's names hide no module"


def test_replicas_average_all_gradients_in_one_bucket_that_says_what_it_holds(jobs):
    for first, second, third in checked(jobs, "ddp"):
        for profile in (first, second, third):
            (row,) = profile.comm
            assert (row.op, row.phase, row.calls, row.bytes) == ("all_reduce", "backward", 1, 2_048 * FLOAT)
            (own,) = profile.root.comm
            assert sorted(own.holds) == [
                f"module.{block}.{layer}.weight" for block in (0, 1) for layer in ("down", "up")
            ]
            assert profile.at_peak["buckets"] == 8_192
        # in its second step torch agrees on a new order of the buckets, once
        assert {row.op for row in second.setup_comm} == {"broadcast"}
        assert first.setup_comm == third.setup_comm == ()
        assert (first.world.data_parallel, first.whole.macs) == (2, 4 * PRODUCT)
        # scaling the gradients is this rank's work and none of the model's
        assert first.backward.flops - first.whole.backward.flops == 2_048


def test_buckets_beside_gradients_are_a_kind_of_their_own(jobs):
    for profile, _, _ in checked(jobs, "ddp"):
        # At the peak three of four weights have their gradients; the last but one was just made and is not averaged yet.
        assert profile.at_peak["buckets"] == 2_048 * FLOAT
        assert profile.at_peak["gradients"] == 3 * 512 * FLOAT


def test_gradients_that_are_views_of_buckets_are_counted_once(jobs):
    for first, second in checked(jobs, "ddp_views"):
        for profile in (first, second):
            assert "gradients" not in profile.at_peak
            assert profile.at_peak["parameters"] == profile.at_peak["buckets"] == 2_048 * FLOAT
            # The peak is in the first node: everything saved, the gradients of the last weight and of its input, the
            # model's output, the loss and its gradient.
            assert profile.at_peak["activations"] == 2_560
            assert profile.at_peak["temporaries"] == 512 * FLOAT + 8 * 32 * FLOAT + 8 * 16 * FLOAT + 2 * FLOAT
            assert profile.peak_bytes == 2 * 8_192 + 2_560 + 3_592 + 512 == 23_048


def test_a_bucket_that_is_sent_in_halves_stays_whole_in_memory(jobs):
    for first, second in checked(jobs, "ddp_halves"):
        for profile in (first, second):
            (row,) = profile.root.comm
            assert (row.op, row.bytes, len(row.holds)) == ("all_reduce", 2_048 * 2, 4)
            assert profile.at_peak["buckets"] == 2_048 * FLOAT
            assert profile.peak_bytes == first.peak_bytes


def test_every_collective_of_a_communication_hook_is_seen_on_every_rank(jobs):
    for first, second in checked(jobs, "ddp_low_rank"):
        for profile in (first, second):
            # nothing for vectors, then a column and a row for each of four matrices of 16 x 32
            (row,) = profile.root.comm
            assert (row.op, row.phase, row.calls, row.bytes) == ("all_reduce", "backward", 3, 4 * (16 + 32) * FLOAT)
            assert len(row.holds) == 4
            assert profile.backward.macs == first.backward.macs


def test_buckets_are_there_before_any_backward(jobs):
    for profile in checked(jobs, "ddp_without_backward"):
        assert profile.at_peak["buckets"] == profile.at_peak["parameters"] == 2_048 * FLOAT


def test_an_optimizer_that_divides_its_state_sends_weights_in_its_step_and_leaves_no_state(jobs):
    for first, second, states in checked(jobs, "zero_redundancy"):
        for profile in (first, second):
            # every rank steps two of four weights: two moments of 512 floats and a step count each
            assert profile.at_peak["optimizer"] == 2 * (2 * 512 * FLOAT + FLOAT)
            sent = {row.op: (row.phase, row.calls, row.bytes) for row in profile.comm}
            assert sent["broadcast"] == ("optimizer", 4, 2 * 512 * FLOAT)
        assert states == 0


def test_replicas_without_a_wrapper_are_data_parallel_from_the_first_call(jobs):
    for first, second in checked(jobs, "replicated"):
        for profile in (first, second):
            assert [(row.op, row.phase, row.calls, row.bytes, row.dim) for row in profile.comm] == [
                ("all_reduce", "backward", 1, 8_192, "dp"),
            ]
            assert (profile.world.data_parallel, profile.world.mesh, profile.whole.macs) == (2, {"dp": 2}, 4 * PRODUCT)
            assert profile.peak_bytes == first.peak_bytes


@with_fsdp2
def test_a_checkpoint_that_is_sharded_hides_no_module(jobs):
    for profile in checked(jobs, "checkpointed_shards"):
        assert (profile["0.up"].macs, profile["0.up"].recompute.macs) == (PRODUCT, PRODUCT)


def test_small_buckets_are_separate_rows(jobs):
    for profile in checked(jobs, "ddp_two_buckets"):
        assert len(profile.root.comm) > 1
        assert sum(row.bytes for row in profile.comm) == 8_192
        held = [name for row in profile.root.comm for name in row.holds]
        assert len(held) == len(set(held)) == 4


def test_a_static_graph_sends_the_same_bucket(jobs):
    for first, second in checked(jobs, "ddp_static_graph"):
        for profile in (first, second):
            assert [(row.op, row.calls, row.bytes) for row in profile.comm] == [("all_reduce", 1, 8_192)]
            assert profile.backward.macs == 7 * PRODUCT
            assert len(profile.root.comm[0].holds) == 4
        assert first.peak_bytes == second.peak_bytes
        assert {row.bytes for row in first.setup_comm} == {4 * 4}  # which of four parameters are used, asked once


def test_steps_without_synchronisation_send_nothing(jobs):
    for quiet, loud in checked(jobs, "ddp_without_sync"):
        assert quiet.comm == ()
        assert sum(row.bytes for row in loud.comm) == 8_192


def test_all_ranks_make_the_same_number_of_runs(jobs):
    ours, theirs = checked(jobs, "ddp_timed")

    assert ours == theirs
    assert len(set(ours)) == 1, "the same number every time"


@with_fsdp2
def test_a_compiled_parallel_model_shows_what_the_plain_one_shows(jobs):
    for replicas, shards in checked(jobs, "compiled"):
        assert [(row.op, row.calls, row.bytes) for row in replicas.comm] == [("all_reduce", 1, 8_192)]
        assert sorted((row.op, row.bytes) for row in shards.comm) == [
            ("all_gather", 4_096), ("all_gather", 4_096), ("reduce_scatter", 8_192),
        ]  # fmt: skip
        assert (shards.params, shards.whole.params) == (1_024, 2_048)
        assert replicas["0.up"].macs == shards["0.up"].macs == PRODUCT


def test_sequence_and_loss_parallel_halve_the_products_and_keep_the_norm(jobs):
    products = 2 * TOKENS * WIDTH * 32 + TOKENS * WIDTH * VOCABULARY
    tables = 2 * WIDTH * 32 + 2 * VOCABULARY * WIDTH
    for profile, _ in checked(jobs, "sequence_and_loss_parallel"):
        assert (profile.macs, profile.whole.macs) == (products // 2, products) == (16_384, 32_768)
        assert (profile.params, profile.whole.params) == (tables // 2 + 2 * WIDTH, tables + 2 * WIDTH) == (1_568, 3_104)
        assert {row.dim for row in profile.comm} == {"tp"}


@with_pipelines
def test_a_stage_knows_its_part_and_the_job_the_whole(jobs):
    (first, _, job), (last, _, nothing) = checked(jobs, "pipeline")

    assert first.macs == last.macs == 2 * PRODUCT
    assert first.whole is None
    assert first.part.startswith("this rank ran stage 0 of a pipeline of 2 ranks")
    sent = [(row.op, row.phase, row.calls, row.bytes) for row in first.comm if row.op == "send"]
    back = [(row.op, row.phase, row.calls, row.bytes) for row in last.comm if row.op == "send"]
    assert sent == [("send", "forward", 4, 4 * 128)]  # two rows of 16 floats a microbatch
    assert back == [("send", "backward", 4, 4 * 128)]
    # Shapes are told from stage to stage; since 2.9 the first stage also hears from the next. Since 2.15 the ranks vote
    # on whether that is needed, and wait for each other once the pair has connected: two integers of 4 bytes.
    heard, agreed = TORCH >= (2, 9), [(row.calls, row.bytes) for row in first.setup_comm if row.op == "all_reduce"]
    assert {row.op for row in first.setup_comm} - {"all_reduce"} == ({"send", "recv"} if heard else {"send"})
    assert agreed == ([(2, 2 * 4)] if TORCH >= (2, 15) else [])
    assert {row.op for row in first.comm} == {"send", "recv"}
    assert (first.world.pipeline, first.world.stage, last.world.stage) == (2, 0, 1)
    assert nothing is None
    assert (job.whole.macs, job.whole.params) == (4 * PRODUCT, 2_048)
    assert [child.name for child in job.model.root.children] == ["stage0", "stage1"]


def test_experts_are_a_part_and_the_job_unites_them(jobs):
    (first, _, job), (_, _, nothing) = checked(jobs, "experts")
    router, expert = WIDTH * 2, 1_024

    assert first.params == router + expert == 1_056
    assert first.macs == 8 * router + 2 * PRODUCT == 8_448
    assert first.whole is None
    assert [(row.op, row.calls, row.bytes) for row in first.comm if row.phase == "forward"] == [
        ("all_to_all", 2, 2 * 512),
    ]
    assert (first.world.expert, nothing) == (2, None)
    assert first.active_params is None  # what the other rank's expert does is not seen here
    assert any("other ranks have others of its experts" in str(doubt) for doubt in first.caveats)
    assert (job.whole.params, job.whole.macs) == (router + 2 * expert, 8_448) == (2_080, 8_448)
    assert job.expert_load == {(0, "expert"): 8, (1, "expert"): 8}


@with_fsdp2
def test_a_tape_holds_no_work_of_a_collective(jobs):
    assert checked(jobs, "works_kept") == [[], []]


def test_context_parallel_on_a_cpu_is_refused_in_one_sentence(jobs):
    for said, macs in checked(jobs, "context_parallel"):
        assert said.startswith("Context parallel runs on a GPU only")
        assert said.count(". ") == 0
        # what has no attention runs on a rank's half of each sequence
        assert macs == 2 * TOKENS // 2 * WIDTH * 32


def test_shards_made_by_hand_have_no_whole_and_say_why(jobs):
    for profile in checked(jobs, "hand_made"):
        assert profile.whole is None
        assert profile.part == "the model exchanges tensors in its own code (all_reduce), so its shards are hand-made"


def test_an_exception_on_one_rank_is_told_and_the_rest_is_kept(jobs):
    job, nothing = checked(jobs, "one_rank_raised")

    assert nothing is None
    assert (list(job.ranks), job.missing) == ([0], (1,))
    assert job.problems == {1: "ValueError was raised: no data here"}


def test_a_rank_without_a_profile_is_named(jobs):
    job, _ = checked(jobs, "one_rank_has_none")

    assert job.problems == {1: "it has no profile."}


def test_a_wrapper_hides_no_module_from_a_comparison(jobs):
    wrapped, plain = checked(jobs, "wrapped_names")[0]

    assert wrapped["0.up"].macs == plain["0.up"].macs
    difference = compare(plain, wrapped)
    assert (difference.added, difference.removed) == ((), ())
