"""No finding names a move that the model already makes, that cannot apply, or that promises more than there is."""

from dataclasses import replace

import pytest
import torch
from profiles import module
from round_device import DEVICE, GIGA, MS, PRODUCT, TERA, attention, leaf, names, only, op, profile, trained
from torch import nn

import flopsight
from flopsight.results.ceilings import Ceilings
from flopsight.results.costs import Cost, OpRow
from flopsight.results.profile import Environment
from flopsight.results.records import Parameter

# attention


class Grouped(nn.Module):
    """Four heads of queries over two of keys in float32: torch has no fused kernel for them, SDPA runs its products apart."""

    def forward(self, x):
        query, key = x[:, :4], x[:, :2]
        return nn.functional.scaled_dot_product_attention(query, key, key, enable_gqa=True)


class InParts(nn.Module):
    def forward(self, x):
        return (x @ x.transpose(-1, -2)).softmax(-1) @ x


class Linear(nn.Module):
    """Attention in linear time: a softmax over the features of queries and over the positions of keys, and no scores."""

    def forward(self, x):
        context = x.softmax(-2).transpose(-1, -2) @ x
        return x.softmax(-1) @ context


class Slots(nn.Module):
    """Slots compete for the inputs: the softmax runs over the queries, which SDPA's does not."""

    def forward(self, x):
        shares = (x[:, :, :8] @ x.transpose(-1, -2)).softmax(-2)
        return (shares / shares.sum(-1, keepdim=True)) @ x


class Capped(nn.Module):
    """Scores go through tanh before the softmax: SDPA cannot do that."""

    def forward(self, x):
        return (x @ x.transpose(-1, -2)).tanh().softmax(-1) @ x


class WeightsAlone(nn.Module):
    """Attention in one kernel, and weights beside it that nothing uses."""

    def forward(self, x):
        (x @ x.transpose(-1, -2)).softmax(-1)
        return nn.functional.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("positions", [96, 32])
@pytest.mark.parametrize("kind", [Grouped, Linear, Slots, Capped, WeightsAlone])
def test_attention_that_sdpa_does_or_cannot_do_is_not_sent_to_sdpa(kind, positions, train):
    x = torch.randn(2, 4, positions, 32, device="meta", requires_grad=train)
    p = flopsight.count(kind(), (x,), train=train, on="meta")

    assert "attention" not in names(p, "h100-sxm")


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("positions", [96, 32])
def test_attention_in_parts_is_found_at_any_length(positions, train):
    x = torch.randn(2, 4, positions, 32, device="meta", requires_grad=train)

    assert "attention" in names(flopsight.count(InParts(), (x,), train=train, on="meta"), "h100-sxm")


def test_a_fused_kernel_saves_the_copies_of_attention_and_no_others():
    inside = attention(fused=False)
    cached = op("aten.cat", moved=10**7, seconds=9 * MS, kind="copy", shapes=(((4, 100, 10),),))
    more = replace(inside, ops=(*inside.ops, cached))

    assert only(profile(more), "attention").seconds == only(profile(inside), "attention").seconds


# the output layer


def head(positions, seconds=30 * MS, **more):
    row = op("aten.mm", macs=10**6, seconds=seconds)
    return leaf("head", "Linear", row, takes=(1, positions, 768), gives=(1, positions, 50264), **more)


def test_the_last_position_of_one_is_not_advice():
    assert "head" not in names(profile(head(1)))


def test_all_but_the_last_position_can_be_won():
    assert only(profile(head(10)), "head").seconds == pytest.approx(27 * MS)


def test_a_loss_in_chunks_wins_the_memory_of_the_logits_and_no_time():
    # logits of 4 * 100 * 50,264 bytes at the head, their gradient in the loss: 40.2 MB of 100 MB
    size = 4 * 100 * 50264
    loss = leaf(
        "loss", "Loss", op("aten._log_softmax", moved=2 * size, shapes=(((1, 100, 50264),),)), own_peak_bytes=size
    )
    p = trained(head(100, own_peak_bytes=size), loss, peak_bytes=10**8)
    found = only(p, "head")

    assert (found.seconds, found.bytes) == (0.0, 2 * size)
    assert "chunks of positions" in found.next_move
    assert "head" not in names(replace(p, peak_bytes=10**9)), "a small part of the peak"


# memory


def too_large(**more):
    parts = {"parameters": 2 * 10**8, "temporaries": 10**9}
    return only(profile(leaf("a", "Linear", PRODUCT), peak_bytes=12 * 10**8, at_peak=parts, **more), "memory").next_move


def test_a_smaller_batch_is_advice_from_two_samples_on():
    assert "smaller batch" in too_large(batch_size=8)
    assert "smaller batch" not in too_large(batch_size=1)


def test_a_smaller_batch_does_not_help_where_the_weights_alone_are_too_large():
    parts = {"parameters": 11 * 10**8, "temporaries": 10**8}
    p = profile(leaf("a", "Linear", PRODUCT), peak_bytes=12 * 10**8, at_peak=parts, batch_size=8)

    assert "smaller batch" not in only(p, "memory").next_move


def test_a_narrower_dtype_is_advice_for_a_model_in_32_bits():
    wide = profile(leaf("a", "Linear", PRODUCT), peak_bytes=12 * 10**8)
    wide = replace(wide, environment=Environment(device="cuda", dtype="float32"))

    assert "bfloat16" in only(wide, "memory").next_move
    assert "bfloat16" not in too_large(batch_size=8)


def test_parameters_that_never_ran_are_not_taken_from_an_optimizer_that_is_not_there():
    spare = module("spare", "Linear", params=(1000,), calls=0)
    used = leaf("a", "Linear", PRODUCT, params=(9000,))

    assert "optimizer" not in only(profile(used, spare), "unused").next_move
    assert "optimizer" in only(trained(used, spare), "unused").next_move


# batch


def thin(*others, batch=1, compute=0, moved=0):
    """10^4 x 10^4 weights of 2 bytes: 20 ms to read, 0.2 ms a row to use."""
    weights = Parameter(1, "weight", 10**8, 2)
    row = op("aten.mm", macs=batch * 10**8 + compute, moved=2 * 10**8 + moved)
    return profile(leaf("a", "Linear", row, params=(weights,)), *others, step=None, batch_size=batch)


def test_a_table_of_which_few_rows_are_read_is_not_read_whole():
    table = leaf("table", "Embedding", op("aten.embedding", moved=10**4), params=(Parameter(2, "weight", 10**9, 2),))

    assert "reading 200 MB of weights takes 20.0 ms" in only(thin(table), "batch").evidence


def test_weights_never_take_longer_than_the_step_that_reads_them():
    # experts: 10^9 weights of which the step moves a fifth
    experts = leaf(
        "experts",
        "Experts",
        op("aten._grouped_mm", macs=10**8, moved=4 * 10**8),
        params=(Parameter(3, "up", 10**9, 2),),
    )
    p = profile(experts, step=None, batch_size=1)

    assert "reading 400 MB of weights takes 40.0 ms" in only(p, "batch").evidence
    assert only(p, "batch").seconds <= p.limit()


def test_a_batch_that_would_be_full_at_its_present_size_is_left_alone():
    # 20 ms to read the weights, 18 ms to use them, 8 ms for another product: twice as many samples take nearly twice as long
    other = leaf("b", "Linear", op("aten.mm", macs=4 * 10**9))

    assert "batch" not in names(thin(other, compute=89 * 10**8))


# precision


TURING = Ceilings("Turing", {"float16": TERA, "float32": TERA / 10}, bandwidth=10.0 * GIGA)
WIDE = op("aten.mm", macs=4 * 10**9, moved=10**6, dtype="float32", seconds=80 * MS)


def test_a_device_without_bfloat16_is_sent_to_float16():
    found = only(profile(leaf("a", "Linear", WIDE), ceilings=TURING), "precision")

    assert "float16 has 1.00 TFLOP/s" in found.evidence
    assert "bfloat16" not in str(found)
    assert found.seconds == pytest.approx(72 * MS)
    assert "GradScaler" not in found.next_move
    assert "GradScaler" in only(trained(leaf("a", "Linear", WIDE), ceilings=TURING), "precision").next_move


def test_every_unit_that_products_run_on_has_its_own_peak():
    """Convolutions as TF32 at 500 GFLOP/s and products at 100: a mean of the two is the peak of nothing."""
    mixed = replace(DEVICE, flops={**DEVICE.flops, "float32/cudnn": TERA / 2})
    conv = op("aten.convolution", macs=5 * 10**9, dtype="float32", seconds=20 * MS)
    found = only(profile(leaf("c", "Conv2d", conv), leaf("a", "Linear", WIDE), ceilings=mixed), "precision")

    assert "at 100 GFLOP/s" in found.evidence
    assert "as TF32 at 500 GFLOP/s" in found.evidence
    assert "let products use TF32" in found.next_move


@pytest.mark.parametrize(("macs", "moved"), [(10**7, 10**4), (4 * 10**9, 4 * 10**8)])
def test_tf32_is_told_if_it_makes_products_faster(macs, moved):
    """One product takes less than a millisecond; another works for 32 ms and moves its bytes for 40 ms."""
    mixed = replace(DEVICE, flops={**DEVICE.flops, "float32": TERA / 4, "float32/cudnn": TERA / 2})
    conv = op("aten.convolution", macs=5 * 10**9, dtype="float32")
    dense = op("aten.mm", macs=macs, moved=moved, dtype="float32")
    found = only(profile(leaf("c", "Conv2d", conv), leaf("a", "Linear", dense), ceilings=mixed, step=None), "precision")

    assert "let products" not in found.next_move


def test_products_that_run_as_tf32_are_not_told_to_use_tf32():
    as_tf32 = replace(DEVICE, flops={"bfloat16": TERA, "float32": TERA / 2, "tf32": TERA / 2})
    found = only(profile(leaf("a", "Linear", WIDE), ceilings=as_tf32), "precision")

    assert "as TF32 at 500 GFLOP/s" in found.evidence
    assert "let products" not in found.next_move


def test_no_win_is_larger_than_the_step():
    slow = op("aten.mm", macs=4 * 10**9, dtype="float32", seconds=500 * MS)
    for found in flopsight.analysis.findings.findings(profile(leaf("a", "Linear", slow))):
        assert found.seconds <= 0.1


# work done again


def test_work_done_again_weighs_what_it_moves():
    """Two small adds of three were done before; the large one was not."""
    adds = OpRow(
        "aten.add", "forward", 3, Cost(bytes=10**8), kind="pointwise", seconds=30 * MS, repeated=2, repeated_bytes=10**6
    )

    assert "repeated" not in names(profile(leaf("a", "Attention", adds)))


def test_the_time_of_work_done_again_is_its_share_of_the_bytes():
    adds = OpRow(
        "aten.add",
        "forward",
        4,
        Cost(bytes=10**8),
        kind="pointwise",
        seconds=40 * MS,
        repeated=1,
        repeated_bytes=10**8 // 2,
    )

    assert only(profile(leaf("a", "Attention", adds)), "repeated").seconds == pytest.approx(20 * MS)


class TwoSizes(nn.Module):
    def forward(self, x):
        small = x[:1] + 1
        return (x + 2) * (x[:1] + 1).sum() * small.sum()


def test_a_row_knows_the_bytes_that_were_done_again():
    (add,) = (
        row for row in flopsight.count(TwoSizes(), (torch.randn(100, 8),), on="meta").root.ops if row.op == "aten.add"
    )

    # 8 numbers of 4 bytes are read and written again
    assert (add.calls, add.repeated, add.repeated_bytes) == (3, 1, 2 * 8 * 4)


# embeddings


def test_a_table_that_is_the_output_layer_too_has_a_dense_gradient_anyway():
    back = op("aten.embedding_dense_backward", moved=10**8, phase="backward", seconds=50 * MS)
    tied, own = Parameter(1, "weight", 10**6), Parameter(2, "weight", 10**6)
    table = leaf("table", "Embedding", op("aten.embedding", moved=100), back, params=(tied,), takes=(1, 8))
    untied, output = leaf("out", "Linear", PRODUCT, params=(own,)), leaf("out", "Linear", PRODUCT, params=(tied,))

    assert "update" not in only(trained(table, untied), "embedding").evidence
    assert "embedding" not in names(trained(table, output))


# what the device has


def test_a_step_that_does_not_fit_is_not_told_to_grow():
    p = replace(thin(), peak_bytes=2 * 10**9, at_peak={"parameters": 2 * 10**9})

    assert "batch" in names(thin())
    assert "batch" not in names(p)


def test_a_larger_batch_is_as_large_as_the_memory_allows():
    # 200 MB of weights and 80 MB a sample in 1 GB: ten samples, where the weights would want a hundred
    p = replace(thin(), peak_bytes=28 * 10**7, at_peak={"parameters": 2 * 10**8, "temporaries": 8 * 10**7})

    assert "up to about 10:" in only(p, "batch").next_move


def test_memory_is_saved_in_a_dtype_that_the_device_has():
    wide = profile(leaf("a", "Linear", PRODUCT), peak_bytes=12 * 10**8, ceilings=replace(TURING, memory=10**9))
    wide = replace(wide, environment=Environment(device="cuda", dtype="float32"))

    assert only(wide, "memory").next_move.endswith("float16")
    assert "bfloat16" not in only(wide, "memory").next_move
