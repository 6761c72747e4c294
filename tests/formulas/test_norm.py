"""Normalisations and softmax: their rates, forward and backward, and fused against unfused."""

import pytest
import torch
from formulas.calls import call, calls, cost, handmade, total
from torch import nn
from torch.nn import functional as F

x = torch.randn(2, 6, 5, 5, requires_grad=True)
N = 2 * 6 * 5 * 5


def backward_of(run):
    x.grad = None  # else gradients are added up
    result = run()
    return calls(lambda: result.backward(torch.ones_like(result)))


@pytest.mark.parametrize(
    ("layer", "rate"),
    [
        (nn.BatchNorm2d(6), 5),
        (nn.BatchNorm2d(6).eval(), 2),
        (nn.BatchNorm2d(6, track_running_stats=False).eval(), 5),
        (nn.LayerNorm([6, 5, 5]), 5),
        (nn.GroupNorm(3, 6), 5),
        (nn.InstanceNorm2d(6), 5),
    ],
)
def test_a_norms_backward_takes_twice_its_forward(layer, rate):
    named = lambda records: [made for made in records if "norm" in made.op]

    assert total(named(calls(lambda: layer(x)))) == (0, rate * N)
    assert total(named(backward_of(lambda: layer(x)))) == (0, 2 * rate * N)


@pytest.mark.parametrize(
    ("run", "op", "rate"),
    [
        (lambda: F.batch_norm(x, torch.zeros(6), torch.ones(6)), "aten.batch_norm", 2),
        (lambda: F.batch_norm(x, None, None, training=True), "aten.batch_norm", 5),
        (lambda: F.layer_norm(x, [5]), "aten.layer_norm", 5),
        (lambda: F.group_norm(x, 2), "aten.group_norm", 5),
        (lambda: F.instance_norm(x), "aten.instance_norm", 5),
    ],
)
def test_undecomposed_norms_have_the_same_rates(run, op, rate):
    with torch.inference_mode():
        made = call(run, op)

    assert cost(made).flops == rate * N


CHANNELS = {"weight": (6,), "bias": (6,), "running_mean": (6,), "running_var": (6,)}
SHAPE = (2, 6, 5, 5)


@pytest.mark.parametrize(
    ("made", "rate"),
    [
        (handmade("aten.cudnn_batch_norm", SHAPE, input=SHAPE, **CHANNELS, training=True, epsilon=1e-5,
                  exponential_average_factor=0.1), 5),
        (handmade("aten.miopen_batch_norm", SHAPE, input=SHAPE, **CHANNELS, training=False, epsilon=1e-5,
                  exponential_average_factor=0.1), 2),
        (handmade("aten._batch_norm_with_update", SHAPE, input=SHAPE, **CHANNELS, momentum=0.1, eps=1e-5), 5),
        (handmade("aten._batch_norm_no_update", SHAPE, input=SHAPE, **CHANNELS, momentum=0.1, eps=1e-5), 2),
        (handmade("aten._native_batch_norm_legit_no_training", SHAPE, input=SHAPE, **CHANNELS, momentum=0.1, eps=1e-5), 2),
        (handmade("aten.batch_norm_stats", (6,), (6,), input=SHAPE, eps=1e-5), 3),
        (handmade("aten.batch_norm_elemt", SHAPE, input=SHAPE, weight=(6,), bias=(6,), mean=(6,), invstd=(6,), eps=1e-5), 2),
        (handmade("aten.cudnn_batch_norm_backward", SHAPE, input=SHAPE, grad_output=SHAPE, weight=(6,), running_mean=None,
                  running_var=None, save_mean=(6,), save_var=(6,), epsilon=1e-5, reserveSpace=(1,)), 10),
        (handmade("aten.batch_norm_backward_reduce", (6,), grad_out=SHAPE, input=SHAPE, mean=(6,), invstd=(6,),
                  weight=(6,), input_g=True, weight_g=True, bias_g=True), 5),
        (handmade("aten.batch_norm_backward_elemt", SHAPE, grad_out=SHAPE, input=SHAPE, mean=(6,), invstd=(6,),
                  weight=(6,), sum_dy=(6,), sum_dy_xmu=(6,), count=(1,)), 5),
    ],
)  # fmt: skip
def test_batch_norms_of_other_backends(made, rate):
    assert cost(made).flops == rate * N


@pytest.mark.parametrize("weighed", [True, False])
def test_a_fused_rms_norm_costs_what_the_unfused_one_runs(weighed):
    rows, weight = torch.randn(3, 4, 8), torch.randn(8) if weighed else None
    unfused = total(calls(lambda: F.rms_norm(rows, [8], weight)))
    with torch.inference_mode():
        whole = call(lambda: F.rms_norm(rows, [8], weight), "aten.rms_norm")
    fused = handmade("aten._fused_rms_norm", (3, 4, 8), (3, 4, 1), input=(3, 4, 8), normalized_shape=(8,),
                     weight=(8,) if weighed else None, eps=1e-5)  # fmt: skip

    assert (0, cost(whole).flops) == (0, cost(fused).flops) == unfused


def test_rms_norm_backward_takes_twice_its_forward():
    made = handmade("aten._fused_rms_norm_backward", (3, 8), (8,), grad_out=(3, 8), input=(3, 8), normalized_shape=(8,),
                    rstd=(3, 1), weight=(8,), output_mask=(True, True))  # fmt: skip

    assert cost(made).flops == 2 * (4 * 24 + 2 * 3)


def test_weight_norm_costs_what_its_parts_do():
    v, g = torch.randn(5, 6, requires_grad=True), torch.randn(5, 1, requires_grad=True)
    parts = total(calls(lambda: v * (g / torch.linalg.vector_norm(v, dim=1, keepdim=True))))

    assert (0, cost(call(lambda: torch._weight_norm(v, g, 0), "aten._weight_norm_interface")).flops) == parts


@pytest.mark.parametrize("fn", [F.softmax, F.log_softmax])
def test_softmax_is_five_forward_and_four_backward(fn):
    assert total(calls(lambda: fn(x, -1))) == (0, 5 * N)
    assert total(backward_of(lambda: fn(x, -1))) == (0, 4 * N)
    with torch.inference_mode():
        assert total(calls(lambda: fn(x, -1))) == (0, 5 * N)


def test_a_masked_softmax_is_a_softmax_and_the_sum_with_its_mask():
    scores, mask = torch.randn(2, 3, 4, 4), torch.zeros(2, 3, 4, 4, dtype=torch.bool)

    assert (
        cost(call(lambda: torch._masked_softmax(scores, mask, 3, 2), "aten._masked_softmax")).flops
        == (5 + 1) * scores.numel()
    )
