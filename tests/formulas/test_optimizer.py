"""Fused optimizers and lists of tensors: they cost what torch's one-tensor-at-a-time steps run."""

import pytest
import torch
from formulas.calls import call, calls, cost, handmade, tensor, total
from torch import optim

SHAPES = ((3, 4), (5,))
N = 17


def step(kind, *, steps, **options):
    """Records of the last of several steps on two parameters."""
    parameters = [torch.randn(shape, requires_grad=True) for shape in SHAPES]
    optimizer = kind(parameters, **options)
    for _ in range(steps):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        made = [record for record in calls(optimizer.step) if record.op.startswith("aten.")]
    return made


CASES = [
    (optim.Adam, {}),
    (optim.Adam, {"weight_decay": 0.1}),
    (optim.Adam, {"amsgrad": True}),
    (optim.Adam, {"maximize": True}),
    (optim.AdamW, {"weight_decay": 0.1}),
    (optim.AdamW, {"weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    (optim.SGD, {}),
    (optim.SGD, {"weight_decay": 0.1}),
    (optim.SGD, {"momentum": 0.9}),
    (optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True}),
    (optim.Adagrad, {}),
    (optim.Adagrad, {"weight_decay": 0.1}),
]


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_a_fused_step_costs_what_the_unfused_one_runs(kind, options, steps):
    """Elements of parameters only: each parameter's step counter is a number beside them."""
    unfused = step(kind, steps=steps, foreach=False, **options)
    fused = step(kind, steps=steps, fused=True, **options)
    large = [made for made in unfused if all(meta.numel > 1 for meta in made.inputs[:1])]
    (kernel,) = [made for made in fused if made.op.startswith("aten._fused")]

    assert (0, cost(kernel).flops) == total(large)


@pytest.mark.parametrize(("kind", "options"), [case for case in CASES if case[0] is not optim.Adagrad], ids=str)
def test_lists_of_tensors_cost_what_single_tensors_do(kind, options):
    """Adagrad's lists take a step more, a scaling of their own; step counters are left out by rounding."""
    single = step(kind, steps=2, foreach=False, **options)
    lists = step(kind, steps=2, foreach=True, **options)

    assert sum(cost(made).flops for made in lists) // N == sum(cost(made).flops for made in single) // N


def test_a_loss_scale_is_one_more_flop_an_element():
    parameters = tuple(map(tensor, SHAPES))
    shared = {"self": parameters, "grads": parameters, "momentum_buffer_list": (), "weight_decay": 0.0, "momentum": 0.0,
              "lr": 0.1, "dampening": 0.0, "nesterov": False, "maximize": False, "is_first_step": False}  # fmt: skip

    plain = handmade("aten._fused_sgd_", **shared)
    scaled = handmade("aten._fused_sgd_", **shared, grad_scale=(1,), found_inf=(1,))

    assert cost(plain).flops == N
    assert cost(scaled).flops == 2 * N


def test_a_fused_step_reads_everything_and_writes_parameters_and_state():
    (made,) = [record for record in step(optim.Adam, steps=1, fused=True) if record.op == "aten._fused_adam_"]

    counters = 2 * 4
    assert cost(made).bytes == (4 * N + 3 * N) * 4 + counters


def test_unscaling_gradients_is_one_flop_an_element():
    grads = [torch.randn(shape) for shape in SHAPES]
    run = lambda: torch._amp_foreach_non_finite_check_and_unscale_(grads, torch.zeros(1), torch.ones(1))

    assert cost(call(run, "aten._amp_foreach_non_finite_check_and_unscale_")).flops == N


@pytest.mark.parametrize(
    ("run", "flops"),
    [
        (lambda xs: torch._foreach_add(xs, 1.0), N),
        (lambda xs: torch._foreach_lerp_(xs, [x.clone() for x in xs], 0.5), N),
        (lambda xs: torch._foreach_norm(xs), N),
        (lambda xs: torch._foreach_max(xs), N),
        (lambda xs: torch._foreach_zero_(xs), 0),
        (lambda xs: torch._foreach_copy_(xs, [x.clone() for x in xs]), 0),
    ],
)
def test_ops_over_lists(run, flops):
    assert total(calls(lambda: run([torch.randn(shape) for shape in SHAPES]))) == (0, flops)


def test_integer_lists_cost_nothing():
    assert total(calls(lambda: torch._foreach_add([torch.arange(3)], 1))) == (0, 0)
