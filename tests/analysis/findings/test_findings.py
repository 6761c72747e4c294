"""Each finding has a profile that it speaks of and one that it does not; every figure is arithmetic on a round device."""

import ast
from dataclasses import replace

import pytest
from docs import pages
from profiles import module
from round_device import (
    DEPTH,
    DEVICE,
    GIGA,
    HEADS,
    LENGTH,
    MS,
    PRODUCT,
    TERA,
    attention,
    leaf,
    names,
    only,
    op,
    profile,
    trained,
)

from flopsight.analysis.findings import LOOKS, Finding, findings, job_findings
from flopsight.results.caveats import CompiledWhole, CutOff, Raised
from flopsight.results.comm import CommRow
from flopsight.results.costs import Cost
from flopsight.results.job import Job
from flopsight.results.records import Padding, Parameter
from flopsight.results.timings import Stat, Timing
from flopsight.results.world import Whole, World


def test_a_model_at_its_limit_has_nothing_to_say():
    assert findings(profile(leaf("a", "Linear", PRODUCT))) == ()


def test_an_unknown_device_without_times_has_nothing_to_say():
    assert findings(profile(leaf("a", "Linear", PRODUCT), ceilings=None, step=None)) == ()


def test_every_look_is_in_the_list_once():
    assert len(set(LOOKS)) == len(LOOKS)


def test_the_page_about_findings_has_a_row_of_every_name():
    folder = pages.ROOT / "src/flopsight/analysis/findings"
    calls = [node for path in folder.glob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    made = {ast.literal_eval(call.args[0]) for call in calls if isinstance(call, ast.Call) and is_finding(call.func)}
    rows = [row.cells["name"].strip("`") for table in pages.tables("docs/findings.md") for row in table]

    assert len(made) >= 15
    assert set(rows) == made


def is_finding(function):
    return isinstance(function, ast.Name) and function.id == "Finding"


# fusion


def test_pointwise_work_between_products_could_be_fused():
    # norm and activation take 15 + 15 ms for 10^8 bytes each; the product leaves and takes 4 * 10^6 bytes: 0.8 ms remain
    norm = leaf("norm", "LayerNorm", op("aten.native_layer_norm", moved=10**8, seconds=15 * MS))
    act = leaf("act", "GELU", op("aten.gelu", moved=10**8, seconds=15 * MS, kind="pointwise"))
    dense = leaf("dense", "Linear", PRODUCT, takes=(10**6,), gives=(10**6,))
    found = only(profile(norm, dense, act), "fusion")

    assert found.seconds == pytest.approx(30 * MS - 0.8 * MS)
    assert found.share == pytest.approx(0.292)
    assert "30.0 ms measured, fused into chains 800 us" in found.evidence


def test_fusion_never_promises_more_than_all_but_half_the_limit_of_what_fuses():
    # 10^7 bytes are 1 ms, of which at least half stays; the products' ends would be 20 ms
    act = leaf("act", "GELU", op("aten.gelu", moved=10**7, seconds=15 * MS, kind="pointwise"))
    dense = leaf("dense", "Linear", PRODUCT, takes=(25 * 10**6,), gives=(25 * 10**6,))

    assert only(profile(dense, act), "fusion").seconds == pytest.approx(14.5 * MS)


@pytest.mark.parametrize(
    ("row", "more"),
    [
        (op("aten.gelu", moved=10**6, seconds=1 * MS, kind="pointwise"), {}),  # under 2 % of the step
        (op("aten.index_select", moved=10**8, seconds=30 * MS, kind="copy"), {}),  # a lookup fuses with nothing
        (op("aten.gelu", moved=10**8, seconds=30 * MS, kind="pointwise"), {"caveats": (CompiledWhole(),)}),
    ],
)
def test_what_is_short_cannot_fuse_or_is_compiled_already_stays_unsaid(row, more):
    assert "fusion" not in names(profile(leaf("a", "Act", row), leaf("b", "Linear", PRODUCT), **more))


def test_compiling_an_encoder_layer_warns_of_the_fused_path_it_gives_up():
    act = leaf("act", "GELU", op("aten.gelu", moved=10**8, seconds=30 * MS, kind="pointwise"))
    layer = module("layer", "TransformerEncoderLayer", act, leaf("dense", "Linear", PRODUCT))

    assert "gives up torch's own fused encoder layer" in only(profile(layer), "fusion").next_move


def test_compiling_causal_attention_warns_of_the_mask_that_it_may_get():
    act = leaf("act", "GELU", op("aten.gelu", moved=10**8, seconds=30 * MS, kind="pointwise"))
    causal = replace(PRODUCT, op="aten._scaled_dot_product_flash_attention", cost=Cost(4 * 10**10, skipped_macs=10**10))

    assert "may get a mask" in only(profile(act, leaf("a", "Attention", causal)), "fusion").next_move
    assert "mask" not in only(profile(act, leaf("a", "Linear", PRODUCT)), "fusion").next_move


# launches and data


def test_a_device_that_waits_for_the_host_says_so_and_short_kernels_are_no_longer_the_point():
    timing = Timing(forward=Stat((0.1,)), busy=0.02, idle=0.08)
    act = leaf("act", "GELU", op("aten.gelu", moved=10**8, seconds=15 * MS, kind="pointwise"))
    p = profile(act, leaf("a", "Linear", op("aten.mm", macs=10**8, seconds=5 * MS)), timing=timing)

    assert names(p) == ["launch"]
    assert only(p, "launch").seconds == pytest.approx(0.08)


def test_waiting_for_data_is_a_finding_from_two_percent_on():
    def waiting(seconds):
        timing = Timing(forward=Stat((0.1,)), iteration=Stat((0.1,)), data_wait=Stat((seconds,)), busy=0.09, idle=0.01)
        return profile(leaf("a", "Linear", PRODUCT), timing=timing)

    assert only(waiting(0.03), "data").seconds == pytest.approx(0.03)
    assert "data" not in names(waiting(0.001))


def test_waiting_in_a_loop_that_does_not_train_is_a_share_of_the_whole_iteration():
    timing = Timing(forward=Stat((0.1,)), iteration=Stat((0.4,)), data_wait=Stat((0.3,)))
    found = only(profile(leaf("a", "Linear", PRODUCT), timing=timing), "data")

    assert found.evidence == "300 ms of 400 ms a step"
    assert found.share == pytest.approx(0.75)


# precision


def test_products_in_float32_could_run_in_bfloat16():
    wide = op("aten.mm", macs=4 * 10**9, moved=10**6, dtype="float32", seconds=80 * MS)
    add = op("aten.add", moved=10**8, dtype="float32", seconds=20 * MS, kind="pointwise")
    found = only(profile(leaf("a", "Linear", wide, add)), "precision")

    # the product then takes 8 ms, the add half of its time
    assert found.seconds == pytest.approx(72 * MS + 10 * MS)
    assert "100 GFLOP/s, bfloat16 has 1.00 TFLOP/s" in found.evidence


def test_products_in_bfloat16_or_on_a_device_without_a_faster_dtype_are_as_they_should_be():
    wide = op("aten.mm", macs=4 * 10**9, dtype="float32", seconds=80 * MS)
    even = replace(DEVICE, flops={"bfloat16": TERA / 8, "float32": TERA / 10})

    assert "precision" not in names(profile(leaf("a", "Linear", PRODUCT)))
    assert "precision" not in names(profile(leaf("a", "Linear", wide), ceilings=even))


def test_norms_in_float32_between_products_in_16_bits():
    norm = leaf(
        "norm", "LayerNorm",
        op("aten.native_layer_norm", moved=10**8, dtype="float32", seconds=8 * MS),
        op("aten._to_copy", moved=10**7, seconds=3 * MS, kind="copy"),
    )  # fmt: skip
    narrow = leaf("norm", "LayerNorm", op("aten.native_layer_norm", moved=10**8, seconds=8 * MS))

    assert only(profile(norm, leaf("a", "Linear", PRODUCT)), "wide norms").seconds == pytest.approx(4 * MS + 3 * MS)
    assert "wide norms" not in names(profile(narrow, leaf("a", "Linear", PRODUCT)))


def test_a_small_product_in_float32_does_not_make_the_norms_around_it_a_matter_of_precision():
    rotary = op("aten.bmm", macs=10**6, dtype="float32", seconds=0.01 * MS)
    norm = op("aten.mul", moved=10**8, dtype="float32", seconds=20 * MS, kind="pointwise")

    assert "precision" not in names(profile(leaf("a", "Rotary", rotary, norm), leaf("b", "Linear", PRODUCT)))


# products


def test_attention_taken_apart_could_be_one_kernel():
    found = only(profile(attention(fused=False), leaf("a", "Linear", PRODUCT)), "attention")

    # 20 + 10 + 5 ms, and 7 for operands laid out anew; a fused kernel moves queries, keys, values and results, 4 * 4 * 100 * 10 numbers of 2 bytes
    fused = max(2 * 2 * HEADS * LENGTH**2 * DEPTH / TERA, 4 * HEADS * LENGTH * DEPTH * 2 / (10 * GIGA))
    assert found.seconds == pytest.approx(42 * MS - fused)
    assert found.where == ("attention",)


def test_attention_in_one_kernel_is_as_it_should_be():
    assert "attention" not in names(profile(attention(fused=True), leaf("a", "Linear", PRODUCT)))


def conv(layout):
    return leaf("conv", "Conv2d", op("aten.convolution", macs=5 * 10**9, seconds=50 * MS, layout=layout))


def test_channels_first_is_told_on_a_gpu_alone():
    # 10 ms at the limit, 50 measured; the norm is 9 ms above its millisecond
    norm = leaf("norm", "BatchNorm2d", op("aten.native_batch_norm", moved=10**7, seconds=10 * MS))
    assert only(profile(conv("channels_first"), norm), "layout").seconds == pytest.approx(49 * MS)
    assert "layout" not in names(profile(conv("channels_last")))
    assert "layout" not in names(profile(conv("channels_first"), device="cpu"))


def test_a_vocabulary_of_50257_is_seven_short_of_a_multiple_of_eight():
    def head(size):
        shapes = (((64, 768), (768, size)),)
        return leaf("head", "Linear", op("aten.mm", macs=64 * 768 * size, seconds=50 * MS, shapes=shapes))

    found = only(profile(head(50257)), "shapes")

    assert found.seconds == pytest.approx(50 * MS - 2 * 64 * 768 * 50257 / TERA)
    assert found.next_move == "pad it to 50,264, or to 50,304, a multiple of 64"
    assert "shapes" not in names(profile(head(50264)))
    assert "shapes" not in names(profile(head(50257), device="cpu")), "a CPU has no matrix units to feed"


def test_rows_of_a_product_may_be_any_number():
    shapes = (((77, 768), (768, 768)),)
    p = profile(leaf("a", "Linear", op("aten.mm", macs=77 * 768 * 768, seconds=50 * MS, shapes=shapes)))

    assert "shapes" not in names(p)


def thin(batch):
    """A square layer of 10^4 x 10^4 weights of 2 bytes: 20 ms to read, 0.2 ms a row to use."""
    weights = Parameter(1, "weight", 10**8, 2)
    row = op("aten.mm", macs=batch * 10**8, moved=2 * 10**8 + 4 * batch * 10**4, seconds=25 * MS)
    return profile(leaf("a", "Linear", row, params=(weights,)), step=0.025, batch_size=batch)


def test_a_small_batch_waits_for_weights_up_to_the_knee():
    found = only(thin(1), "batch")

    # without the weights' 20 ms a row costs the bytes of its ends, 4 us
    assert found.seconds == pytest.approx(25 * MS - 4e-6)
    assert "up to about 100" in found.next_move  # 20 ms of weights, 0.2 ms a row
    assert "batch" not in names(thin(200))


def test_a_head_over_a_vocabulary_that_takes_a_fifth_of_the_step():
    def head(seconds, positions=128):
        row = op("aten.mm", macs=10**6, seconds=seconds)
        return leaf("head", "Linear", row, takes=(1, positions, 768), gives=(1, positions, 50264))

    found = only(profile(head(30 * MS)), "head")

    assert found.seconds == pytest.approx(30 * MS * 127 / 128)
    assert "only the last of 128 positions" in found.next_move
    assert "head" not in names(profile(head(10 * MS)))


# memory


def test_modules_that_never_ran_are_named_with_their_parameters():
    spare = module("spare", "Linear", params=(1000,), calls=0)
    used = leaf("a", "Linear", PRODUCT, params=(9000,))
    found = only(profile(used, spare), "unused")

    assert found.bytes == 4 * 1000
    assert found.where == ("spare",)
    assert "1 k of 10 k parameters, 10.0%" in found.evidence.replace("1.00 k", "1 k").replace("10.0 k", "10 k")


@pytest.mark.parametrize("caveat", [Raised("ValueError", "spare", "forward"), CutOff(5)])
def test_a_module_that_a_step_did_not_reach_before_it_ended_is_not_called_unused(caveat):
    spare = module("spare", "Linear", params=(1000,), calls=0)

    assert "unused" not in names(profile(leaf("a", "Linear", PRODUCT), spare, caveats=(caveat,)))


def test_a_module_whose_weights_are_tied_or_used_by_its_parent_is_not_called_unused():
    tied = Parameter(7, "weight", 1000)
    shared = profile(leaf("a", "Linear", PRODUCT, params=(tied,)), module("b", "Linear", params=(tied,), calls=0))
    held = module("out", "Linear", params=(1000,), calls=0)
    by_parent = profile(module("mha", "MultiheadAttention", held, macs=10, ops=(op("aten.mm", macs=10),)))

    assert "unused" not in names(shared)
    assert "unused" not in names(by_parent)


def test_parameters_that_a_module_never_reads_are_named_on_one_rank_alone():
    held, spare = Parameter(1, "weight", 9000), Parameter(2, "spare", 1000, unread=True)
    layer = leaf("a", "Linear", PRODUCT, params=(held, spare))
    found = only(profile(layer), "unused")

    assert (found.bytes, found.where) == (4 * 1000, ("a",))
    assert "10.0%" in found.evidence
    assert "unused" not in names(profile(leaf("a", "Linear", PRODUCT, params=(held,))))
    assert "unused" not in names(profile(layer, world=World(size=2)))


def test_frozen_layers_before_the_first_trained_one_need_no_backward():
    back = op("aten.mm", macs=10, phase="backward", seconds=5 * MS)
    frozen = leaf("frozen", "Linear", PRODUCT, back, params=(100,), trainable=False, saved=4000)
    tuned = leaf("tuned", "Linear", back, params=(100,))

    found = only(trained(frozen, tuned), "frozen")
    assert (found.seconds, found.bytes) == (pytest.approx(5 * MS), 4000)
    assert "frozen" not in names(trained(tuned, frozen)), "gradients of what comes before pass through it"


def test_a_step_that_does_not_fit_the_memory_comes_before_every_win():
    act = leaf("act", "GELU", op("aten.gelu", moved=10**8, seconds=15 * MS, kind="pointwise"))
    parts = {"parameters": 2 * 10**9, "gradients": 5 * 10**8}
    p = profile(act, leaf("a", "Linear", PRODUCT), peak_bytes=25 * 10**8, at_peak=parts)
    first = findings(p)[0]

    assert (first.name, first.bytes, first.seconds) == ("memory", 15 * 10**8, 0)
    assert "2.50 GB (parameters 2.00 GB, gradients 500 MB), the device has 1.00 GB" in first.evidence
    assert first.next_move.startswith("shard it over 3 devices or more")
    assert "1.50 GB of memory missing" in str(first)
    assert "memory" not in names(profile(act, peak_bytes=10**9))


def test_an_optimizer_that_runs_op_by_op_moves_more_than_a_fused_one():
    # 10^6 weights of 4 bytes and 8 * 10^6 bytes of state: read and written once they are 28 * 10^6 bytes, 2.8 ms
    held = Parameter(1, "weight", 10**6, 4, state_bytes=8 * 10**6)
    apart = op("aten.mul_", moved=10**8, phase="optimizer", seconds=9 * MS)
    fused = op("aten._fused_adamw_", moved=28 * 10**6, phase="optimizer", seconds=9 * MS)

    found = only(trained(leaf("a", "Linear", PRODUCT, apart, params=(held,))), "optimizer")
    assert found.seconds == pytest.approx(9 * MS - 2.8 * MS)
    assert "moves 100 MB in 9.00 ms" in found.evidence
    assert "optimizer" not in names(trained(leaf("a", "Linear", PRODUCT, fused, params=(held,))))
    assert "optimizer" not in names(trained(leaf("a", "Linear", PRODUCT, params=(held,))))


def test_recompute_that_memory_has_room_for():
    again = op("aten.mm", macs=10**9, moved=10**8, phase="recompute", seconds=20 * MS)
    block = leaf("block", "Block", PRODUCT, again)

    found = only(trained(block, peak_bytes=5 * 10**8), "recompute")
    assert found.seconds == pytest.approx(20 * MS)
    assert "500 MB, without it at most 600 MB of 1.00 GB" in found.evidence
    assert "recompute" not in names(trained(block, peak_bytes=85 * 10**7)), "950 MB are above nine tenths of the memory"


def test_activations_that_fill_the_memory_could_be_recomputed():
    blocks = [leaf(str(i), "Block", PRODUCT, saved=2 * 10**8, takes=(10**6,)) for i in range(3)]

    found = only(trained(*blocks, peak_bytes=8 * 10**8), "recompute")
    assert found.bytes == 3 * (2 * 10**8 - 4 * 10**6)
    assert "recompute" not in names(trained(*blocks, peak_bytes=6 * 10**8)), "there is room"


def test_a_table_whose_gradient_is_dense_takes_a_fifth_of_the_step():
    def table(seconds):
        back = op("aten.embedding_dense_backward", moved=10**8, phase="backward", seconds=seconds)
        return leaf("table", "Embedding", back, params=(10**7,), takes=(8, 16))

    found = only(trained(table(30 * MS)), "embedding")
    assert found.seconds == pytest.approx(30 * MS)
    assert "looks up 128 rows, and works on all of 40.0 MB" in found.evidence
    assert "embedding" not in names(trained(table(10 * MS)))


# waste


def test_work_done_again_on_the_same_values_could_be_done_once():
    # one of four calls of 40 ms, and a quarter of the backward's 20
    layer = leaf(
        "layer", "Linear",
        op("aten.addmm", macs=10**9, seconds=40 * MS, calls=4, again=1),
        op("aten.mm", macs=10**9, seconds=20 * MS, phase="backward"),
    )  # fmt: skip
    found = only(trained(layer), "repeated")

    assert found.seconds == pytest.approx(10 * MS + 5 * MS)
    assert "1 of 4 calls of aten.addmm" in found.evidence
    assert "repeated" not in names(trained(leaf("layer", "Linear", op("aten.addmm", seconds=40 * MS, calls=4))))
    assert "repeated" not in names(profile(leaf("a", "Mask", op("aten.tril", seconds=1 * MS, calls=2, again=1))))


def test_padding_wastes_its_share_of_the_work_and_its_pairs_of_attention():
    dense = leaf("a", "Linear", op("aten.mm", macs=10**9, seconds=60 * MS))
    attends = op("aten._scaled_dot_product_flash_attention", macs=10**9, seconds=40 * MS)
    batch = Padding(positions=100, padded=25, pairs=1000, real_pairs=600)
    found = only(profile(dense, leaf("b", "Attention", attends), padding=batch), "padding")

    assert found.seconds == pytest.approx(0.25 * 60 * MS + 0.4 * 40 * MS)
    assert "25 of 100 positions (25.0%) and 40.0% of the pairs" in found.evidence
    assert "padding" not in names(profile(dense, padding=replace(batch, padded=0, real_pairs=1000)))
    assert "padding" not in names(profile(dense))


def test_traced_times_of_a_cpu_take_no_longer_than_the_step_together():
    # 150 ms traced in a step of 100: each counts two thirds
    rows = [op("aten.mm", macs=10**6, seconds=75 * MS) for _ in range(2)]
    batch = Padding(positions=2, padded=1, pairs=2, real_pairs=1)
    found = only(profile(leaf("a", "Model", *rows), device="cpu", padding=batch), "padding")

    assert found.seconds == pytest.approx(50 * MS)


# ranks


def test_collectives_take_the_time_that_nothing_hides_else_that_of_the_link():
    sent = CommRow("all_reduce", "backward", 1, 10**7, 2 * 10**7, 2)
    p = trained(leaf("a", "Linear", PRODUCT, comm=(sent,)))

    assert only(p, "collectives").seconds == pytest.approx(0.020)  # 2 * 10^7 bytes at 10^9 B/s
    hidden = trained(leaf("a", "Linear", PRODUCT, comm=(replace(sent, seconds=0.02, exposed=0.001),)))
    assert "collectives" not in names(hidden)


def test_ranks_that_repeat_work_do_more_together_than_the_whole_model():
    p = profile(leaf("a", "Linear", PRODUCT), world=World(size=2, model_parallel=2), unsharded=Whole(macs=6 * 10**10))

    # 2 ranks of 4 * 10^10 for a model of 6 * 10^10: a quarter is done twice
    assert only(p, "redundant").seconds == pytest.approx(0.025)
    even = profile(
        leaf("a", "Linear", PRODUCT), world=World(size=2, model_parallel=2), unsharded=Whole(macs=8 * 10**10)
    )
    assert "redundant" not in names(even)
    stages = World(size=4, model_parallel=2, pipeline=2)  # which have layers of their own, and so share no work
    assert "redundant" not in names(
        profile(leaf("a", "Linear", PRODUCT), world=stages, unsharded=Whole(macs=4 * 10**10))
    )


def test_a_rank_with_more_work_than_the_mean_holds_up_the_others():
    light, heavy = (profile(leaf("a", "Linear", op("aten.mm", macs=n * 10**9, seconds=n * 2 * MS))) for n in (2, 4))
    found = next(f for f in job_findings(Job({0: light, 1: heavy}, 2)) if f.name == "imbalance")

    assert found.seconds == pytest.approx(0.1 * (1 - 3 / 4))  # the mean is 3 of the busiest rank's 4
    assert not [f for f in job_findings(Job({0: light, 1: light}, 2)) if f.name == "imbalance"]


# the list


def test_findings_come_with_the_largest_win_first_and_memory_last():
    spare = module("spare", "Linear", params=(1000,), calls=0)
    p = profile(conv("channels_first"), attention(fused=False), leaf("a", "Linear", PRODUCT, params=(10,)), spare)

    wins = [finding.seconds for finding in findings(p)]
    assert wins == sorted(wins, reverse=True)
    assert names(p)[-1] == "unused"


def test_on_a_named_device_times_are_limits():
    wide = op("aten.mm", macs=4 * 10**9, dtype="float32", seconds=80 * MS)
    found = only(profile(leaf("a", "Linear", wide)), "precision", "h100-sxm")

    assert found.seconds < 1 * MS
    assert "at the limit" in found.evidence


def test_a_finding_is_one_sentence_with_its_numbers():
    said = str(Finding("x", "Something is slow", ("a", "b", "c", "d"), "it takes 3 ms", "do less", 0.003, 0.25, 1000))

    assert said == (
        "Something is slow (a, b, c and 1 more): it takes 3 ms; at most 3.00 ms (25.0%) of a step and 1.00 kB of memory to win: do less."
    )


def test_the_same_module_of_every_block_is_named_once():
    where = ("h.1.up", "head", "h.0.up", "h.2.up", "h.0.down", "layer1.0", "h.1.down")
    found = Finding("x", "Something is slow", where, "it takes 3 ms", "do less")

    assert found.place == "h.*.up x 3, head, h.*.down x 2 and 1 more"
