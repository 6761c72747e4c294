"""Bytes that an op by itself moves: inputs read once, outputs written once, and where that is not so."""

import pytest
import torch
from formulas.calls import call, cost, handmade, tensor
from torch.nn import functional as F

from flopsight.formulas import price

F32, I64 = 4, 8
table = torch.randn(1000, 16)
x = torch.randn(8, 16)
rows = torch.tensor([3, 5, 5, 7])


@pytest.mark.parametrize(
    ("run", "op", "moved"),
    [
        (lambda: x + x, "aten.add", 3 * 128 * F32),
        (lambda: x.clone().add_(x), "aten.add_", 3 * 128 * F32),
        (lambda: x + torch.ones(16), "aten.add", (2 * 128 + 16) * F32),
        (lambda: x + torch.ones(1).expand(8, 16), "aten.add", (2 * 128 + 1) * F32),
        (lambda: torch.mm(x, table.t()), "aten.mm", (128 + 16000 + 8000) * F32),
        (lambda: x.clone(), "aten.clone", 2 * 128 * F32),
        (lambda: x.half(), "aten._to_copy", 128 * F32 + 128 * 2),
        (lambda: x.t(), "aten.t", 0),
        (lambda: torch.empty(100), "aten.empty", 0),
        (lambda: torch.zeros(100), "aten.zeros", 100 * F32),
        (lambda: torch.zeros_like(x), "aten.zeros_like", 128 * F32),
        (lambda: x.clone().zero_(), "aten.zero_", 128 * F32),
        (lambda: x.clone().fill_(2.0), "aten.fill_", 128 * F32),
        (lambda: x.clone().copy_(x), "aten.copy_", 2 * 128 * F32),
        (lambda: x.clone().normal_(), "aten.normal_", 128 * F32),
        (lambda: torch.arange(10), "aten.arange", 10 * I64),
        (lambda: torch.cat([x, x]), "aten.cat", 4 * 128 * F32),
        (lambda: F.embedding(rows, table), "aten.embedding", 4 * I64 + 2 * 4 * 16 * F32),
        (lambda: table[rows], "aten.index", 4 * I64 + 2 * 4 * 16 * F32),
        (lambda: table.index_select(0, rows), "aten.index_select", 4 * I64 + 2 * 4 * 16 * F32),
        (lambda: table.gather(0, torch.zeros(2, 16, dtype=torch.long)), "aten.gather", 32 * I64 + 2 * 32 * F32),
        (lambda: table.clone().index_copy_(0, rows, table[:4]), "aten.index_copy_", 4 * I64 + 2 * 64 * F32),
        (lambda: table.clone().index_put_((rows,), table[:4]), "aten.index_put_", 4 * I64 + 2 * 64 * F32),
        (lambda: table.clone().index_add_(0, rows, table[:4]), "aten.index_add_", 4 * I64 + 3 * 64 * F32),
        (lambda: table.index_add(0, rows, table[:4]), "aten.index_add", 4 * I64 + (2 * 16000 + 64) * F32),
        (
            lambda: table.clone().scatter_(0, torch.zeros(2, 16, dtype=torch.long), table[:2]),
            "aten.scatter_",
            32 * I64 + 2 * 32 * F32,
        ),
    ],
)
def test_bytes_moved(run, op, moved):
    assert cost(call(run, op)).bytes == moved


def test_a_bag_reads_the_rows_it_adds():
    bag = torch.nn.EmbeddingBag(1000, 16, mode="sum")
    offsets = torch.tensor([0, 2])

    made = call(lambda: bag(rows, offsets), "aten._embedding_bag")

    kept = sum(meta.nbytes for meta in made.outputs)
    assert cost(made).bytes == 4 * 16 * F32 + 4 * I64 + kept


def test_an_op_without_a_formula_still_shows_its_bytes():
    from flopsight.results.records import OpRecord

    made = OpRecord("mylib.myop", args={"x": tensor((4,))}, outputs=(tensor((4,)),))

    assert price(made).status == "unknown"
    assert price(made).cost.bytes == 2 * 4 * F32


def test_lists_in_place_are_read_and_written():
    parameters = (tensor((3, 4)), tensor((5,)))
    made = handmade("aten._foreach_add_", overload="List", self=parameters, other=parameters)

    assert cost(made).bytes == 3 * 17 * F32


def test_a_loss_of_labels_reads_the_scores_that_they_pick():
    """8 targets of 100 classes: 8 labels, 8 scores, the loss and its weight. Backward writes a whole gradient."""
    scores, labels = torch.randn(8, 100, requires_grad=True), torch.randint(100, (8,))
    run = lambda: F.nll_loss(scores, labels)

    assert cost(call(run, "aten.nll_loss_forward")).bytes == 8 * I64 + 8 * F32 + 2 * F32
    back = cost(call(lambda: run().backward(), "aten.nll_loss_backward"))
    assert back.bytes == 8 * I64 + 2 * F32 + 8 * 100 * F32  # the loss' gradient and the weight: one number each
