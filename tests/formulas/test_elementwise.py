"""Pointwise ops, reductions, scatters and dropout: one FLOP an element, and which elements."""

import pytest
import torch
from formulas.calls import call, calls, cost, handmade, tensor, total
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from flopsight.formulas import price

x = torch.randn(3, 4)


@pytest.mark.parametrize(
    ("run", "flops"),
    [
        (lambda: x + x, 12),
        (lambda: x + torch.randn(2, 3, 4), 24),
        (lambda: torch.addcmul(x, x, x), 12),
        (lambda: F.gelu(x), 12),
        (lambda: torch.ops.aten.gelu_(x.clone()), 12),
        (lambda: F.hardswish(x), 12),
        (lambda: torch.rsub(x, 1), 12),
        (lambda: F.relu(x), 12),
        (lambda: x.clamp(0, 1), 12),
        (lambda: torch.maximum(x, x), 12),
        (lambda: F.logsigmoid(x), 12),
        (lambda: F.glu(x), 6),
        (lambda: F.prelu(x, torch.randn(4)), 12),
        (lambda: torch.abs_(x.clone()), 12),
        (lambda: x.sum(), 12),
        (lambda: x.mean(0), 12),
        (lambda: x.max(), 12),
        (lambda: x.max(1), 12),
        (lambda: x.var(1), 12),
        (lambda: torch.var_mean(x), 12),
        (lambda: torch.linalg.vector_norm(x), 12),
        (lambda: torch.logsumexp(x, 0), 12),
        (lambda: x.cumsum(0), 12),
        (lambda: torch.cummax(x, 0), 12),
        (lambda: torch.trace(x), 3),
        (lambda: torch.dist(x, x), 24),
        (lambda: torch.renorm(x, 2, 0, 1.0), 24),
    ],
)
def test_one_flop_an_element(run, flops):
    made = [record for record in calls(run) if record.op not in {"aten.randn", "aten.clone"}]

    assert total(made) == (0, flops)


@pytest.mark.parametrize(
    "run",
    [
        lambda: torch.arange(4) + 1,
        lambda: torch.ones(3, dtype=torch.bool) & torch.ones(3, dtype=torch.bool),
        lambda: x > 0,
        lambda: x.clone().ge_(0),
        lambda: x.argmax(),
        lambda: torch.arange(4).sum(),
        lambda: (x > 0).any(),
        lambda: torch.where(x > 0, x, x),
        lambda: x.masked_fill(x > 0, 1.0),
        lambda: x.clone(),
        lambda: x.double(),
        lambda: torch.cat([x, x]),
        lambda: x.t().contiguous(),
        lambda: x[torch.tensor([0, 2])],
        lambda: x.sort(),
        lambda: x.topk(2),
        lambda: x.tril(),
        lambda: F.pad(x, (1, 1)),
        lambda: torch.rand(4),
        lambda: F.one_hot(torch.arange(4)),
    ],
)
def test_no_flops_for_integers_comparisons_and_copies(run):
    assert total(calls(run)) == (0, 0)


@pytest.mark.parametrize(
    "run",
    [
        lambda: torch.cat([x, x]),
        lambda: x.clone(),
        lambda: x.sort(),
        lambda: F.embedding(torch.tensor([1]), x),
        lambda: x.view(12),
        lambda: torch.arange(4) + 1,
        lambda: torch.empty(4),
    ],
)
def test_what_computes_nothing_is_free_not_counted(run):
    made = [record for record in calls(run) if record.op not in {"aten.arange", "aten.lift_fresh"}]

    assert {price(record).status for record in made} == {"free"}


def test_an_op_whose_arguments_leave_nothing_to_do_is_still_counted():
    made = handmade("aten.native_dropout", (3, 4), tensor((3, 4), "bool"), input=(3, 4), p=0.5, train=False)

    assert price(made).status == "counted"
    assert cost(made).flops == 0


@given(st.floats(0, 0.9), st.sampled_from([True, False, None]))
def test_fused_dropout_costs_what_the_unfused_one_does(p, train):
    """The unfused one scales the mask and applies it; its backward applies it once more."""
    source = torch.randn(3, 4, requires_grad=True)
    unfused = total(calls(lambda: F.dropout(source, p, train is not False)))

    made = handmade("aten.native_dropout", (3, 4), tensor((3, 4), "bool"), input=(3, 4), p=p, train=train)

    assert (0, cost(made).flops) == unfused


def test_dropout_backward_is_one_flop_an_element():
    made = handmade("aten.native_dropout_backward", (3, 4), grad_output=(3, 4), mask=tensor((3, 4), "bool"), scale=2.0)

    assert cost(made).flops == 12


@pytest.mark.parametrize(
    ("run", "flops"),
    [
        (lambda: torch.zeros(5, 4).index_add_(0, torch.tensor([1, 1, 3]), x), 12),
        (lambda: torch.zeros(5, 4).scatter_add_(0, torch.zeros(2, 4, dtype=torch.long), x), 8),
        (lambda: torch.zeros(5, 4).scatter_reduce_(0, torch.zeros(3, 4, dtype=torch.long), x, "amax"), 12),
        (lambda: torch.zeros(5, 4).scatter_(0, torch.zeros(3, 4, dtype=torch.long), x, reduce="add"), 12),
        (lambda: torch.zeros(5, 4).scatter_(0, torch.zeros(3, 4, dtype=torch.long), x), 0),
        (lambda: torch.zeros(5, 4).index_put_((torch.tensor([1, 1, 3]),), x, accumulate=True), 12),
        (lambda: torch.zeros(5, 4).index_put_((torch.tensor([1, 1, 3]),), x), 0),
        (lambda: torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 2])), 12),
    ],
)
@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
def test_adding_at_places_is_one_flop_a_source_element(run, flops):
    made = [record for record in calls(run) if record.op not in {"aten.zeros", "aten._local_scalar_dense"}]

    assert total(made) == (0, flops)


def test_a_sparse_tensors_pointwise_ops_work_on_what_it_stores():
    sparse = torch.eye(4).to_sparse()

    assert cost(call(lambda: sparse * 2.0, "aten.mul")).flops == 4
