"""Bytes of grouped products: the weights of the groups that have rows, the rows that are in a group, every gradient."""

import pytest
import torch
from formulas.calls import call, cost, handmade
from releases import since

import flopsight
from flopsight.results.records import OpRecord, TensorMeta

HALF, INDEX = 2, 4
"""Bytes of a bfloat16, and of where a group ends."""
EXPERTS, WIDTH, OUT = 4, 16, 8
LENGTHS = (0, 5, 0, 1)
ROWS, CHOSEN = sum(LENGTHS), 2


def experts():
    return torch.randn(EXPERTS, WIDTH, OUT, dtype=torch.bfloat16)


def ends(lengths=LENGTHS):
    return torch.tensor(lengths).cumsum(0).to(torch.int32)


def half(*shape):
    return TensorMeta(shape, dtype="bfloat16")


def grouped(lengths=None, rows=ROWS, **more):
    args = {"self": half(rows, WIDTH), "mat2": half(EXPERTS, WIDTH, OUT), "offs": TensorMeta((EXPERTS,), dtype="int32")}
    facts = {} if lengths is None else {"lengths": lengths}
    return OpRecord("aten._grouped_mm", args=args | more, outputs=(half(rows, OUT),), kind="matrix", facts=facts)


@since((2, 9), "grouped product on a CPU")
def test_only_the_experts_that_have_rows_are_read():
    rows, weight, groups = torch.randn(ROWS, WIDTH, dtype=torch.bfloat16), experts(), ends()

    with flopsight.recording() as r:
        torch._grouped_mm(rows, weight, offs=groups)

    assert r.profile.forward.bytes == HALF * (ROWS * WIDTH + CHOSEN * WIDTH * OUT + ROWS * OUT) + EXPERTS * INDEX


@pytest.mark.parametrize(("rows", "read"), [(1, 1), (3, 3), (4, 4), (100, 4)])
def test_groups_that_are_not_known_are_as_many_as_there_can_be(rows, read):
    made = cost(grouped(rows=rows))

    assert made.bytes == HALF * (rows * WIDTH + read * WIDTH * OUT + rows * OUT) + EXPERTS * INDEX


def test_rows_behind_the_last_group_are_neither_read_nor_written():
    made = cost(grouped(LENGTHS, rows=ROWS + 10))

    assert made.bytes == HALF * (ROWS * WIDTH + CHOSEN * WIDTH * OUT + ROWS * OUT) + EXPERTS * INDEX


def test_weights_may_stand_first():
    made = handmade("aten._grouped_mm", (WIDTH, ROWS), self=(EXPERTS, WIDTH, OUT), mat2=(OUT, ROWS), offs=(EXPERTS,),
                    facts={"lengths": LENGTHS})  # fmt: skip

    assert cost(made).bytes == 4 * (CHOSEN * WIDTH * OUT + OUT * ROWS + WIDTH * ROWS + EXPERTS)


@pytest.mark.parametrize("op", ["aten._scaled_grouped_mm", "aten._scaled_grouped_mm_v2"])
def test_scales_of_experts_are_read_with_them(op):
    narrow = {"self": (ROWS, WIDTH), "mat2": (EXPERTS, WIDTH, OUT)}
    scales = {"scale_a": TensorMeta((ROWS,)), "scale_b": TensorMeta((EXPERTS, OUT))}
    if op.endswith("v2"):
        scales = {name: (scale,) for name, scale in scales.items()}
    args = {name: TensorMeta(shape, dtype="float8_e4m3fn") for name, shape in narrow.items()}
    args |= scales | {"offs": TensorMeta((EXPERTS,), dtype="int32"), "bias": half(EXPERTS, OUT)}

    made = cost(OpRecord(op, args=args, outputs=(half(ROWS, OUT),), kind="matrix", facts={"lengths": LENGTHS}))

    read = ROWS * WIDTH + CHOSEN * WIDTH * OUT + 4 * (ROWS + CHOSEN * OUT) + HALF * CHOSEN * OUT
    assert made.bytes == read + HALF * ROWS * OUT + EXPERTS * INDEX


@since((2, 9), "grouped product on a CPU")
def test_backward_reads_the_chosen_experts_and_writes_a_gradient_for_all():
    rows = torch.randn(ROWS, WIDTH, dtype=torch.bfloat16, requires_grad=True)
    weight = experts().requires_grad_()

    with flopsight.recording() as r:
        torch._grouped_mm(rows, weight, offs=ends()).square().sum().backward()

    moved = {row.cost.bytes for row in r.profile.outside.ops if "grouped" in row.op and row.phase == "backward"}
    into_rows = HALF * (ROWS * OUT + CHOSEN * WIDTH * OUT + ROWS * WIDTH) + EXPERTS * INDEX
    into_weight = HALF * (ROWS * OUT + ROWS * WIDTH + EXPERTS * WIDTH * OUT) + EXPERTS * INDEX
    assert sum(moved) == into_rows + into_weight
    assert weight.grad.shape == weight.shape  # zeros where no row went
    assert [bool(part.any()) for part in weight.grad] == [bool(length) for length in LENGTHS]


def test_a_batch_over_all_experts_reads_all_of_them():
    """What models do that multiply every token with every expert."""
    every, weight = torch.randn(EXPERTS, 3, WIDTH), torch.randn(EXPERTS, WIDTH, OUT)

    made = cost(call(lambda: torch.bmm(every, weight), "aten.bmm"))

    assert made.bytes == 4 * EXPERTS * (3 * WIDTH + WIDTH * OUT + 3 * OUT)
    equal = handmade("aten._grouped_mm", (EXPERTS, 3, OUT), self=(EXPERTS, 3, WIDTH), mat2=(EXPERTS, WIDTH, OUT))
    assert cost(equal).bytes == made.bytes


@pytest.mark.parametrize("lengths", [None, (0, 0, 0, 0)])
def test_a_product_without_rows_reads_nothing(lengths):
    made = cost(grouped(lengths, rows=0))

    assert (made.macs, made.bytes) == (0, 0)


def test_a_layer_without_rows_reads_no_weight_but_its_gradient_is_written():
    """What a loop over all experts does with those that no token chose."""
    layer = torch.nn.Linear(WIDTH, OUT, bias=False)

    profile = flopsight.count(layer, (torch.randn(0, WIDTH),), train=True, loss=lambda made: made.sum())

    assert profile.root.own.forward.bytes == 0
    assert profile.root.own.backward.bytes == 4 * WIDTH * OUT
