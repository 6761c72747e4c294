"""The ways in which people write a training step, each with its phases by module."""

import copy

import pytest
import torch
import torch.nn.functional as F
from releases import since
from torch import nn

import flopsight

ROWS, WIDE = 8, 16
X = ROWS * WIDE * WIDE
WEIGHTS = WIDE * WIDE + WIDE


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


def rows(grad=False):
    return torch.randn(ROWS, WIDE, requires_grad=grad)


def phases(profile, path=""):
    node = profile[path]
    return node.forward.macs // X, node.backward.macs // X, node.recompute.macs // X


@pytest.mark.parametrize("batches", [1, 4])
def test_accumulated_gradients_are_one_step_with_several_forwards(batches):
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    with flopsight.recording(model) as r:
        for _ in range(batches):
            (model(rows()).sum() / batches).backward()
        optimizer.step()

    assert phases(r.profile, "a") == (batches, batches, 0)
    assert phases(r.profile, "b") == (batches, 2 * batches, 0)
    # From the second batch on, every gradient is added to the one before, in the module that owns the parameter.
    plain = 2 * X + ROWS * WIDE
    assert r.profile["a"].backward.flops == batches * plain + (batches - 1) * WEIGHTS
    assert r.profile["a"].optimizer.flops == WEIGHTS
    assert r.profile["a"].calls == batches


def test_two_losses_over_one_graph_go_back_twice():
    model = Two()

    with flopsight.recording(model) as r:
        output = model(rows())
        output.sum().backward(retain_graph=True)
        output.pow(2).sum().backward()

    assert phases(r.profile, "a") == (1, 2, 0)
    assert phases(r.profile, "b") == (1, 4, 0)


def test_two_losses_added_go_back_once():
    model = Two()

    with flopsight.recording(model) as r:
        output = model(rows())
        (output.sum() + output.pow(2).mean()).backward()

    assert phases(r.profile) == (2, 3, 0)


def test_a_loss_for_each_branch_goes_back_through_its_branch():
    model = nn.ModuleDict({"trunk": nn.Linear(WIDE, WIDE), "left": Two(), "right": Two()})

    with flopsight.recording(model) as r:
        hidden = model["trunk"](rows())
        left, right = model["left"](hidden), model["right"](hidden)
        torch.autograd.backward([left.sum(), right.sum()])

    assert phases(r.profile, "trunk") == (1, 1, 0)
    assert phases(r.profile, "left") == phases(r.profile, "right") == (2, 4, 0)


@pytest.mark.parametrize("wanted", ["a.weight", "b.weight"])
def test_gradients_asked_for_by_name_run_no_further_than_they_must(wanted):
    model = Two()

    with flopsight.recording(model) as r:
        torch.autograd.grad(model(rows()).sum(), [model.get_parameter(wanted)])

    # b's gradient ends at b; a's needs the gradient of b's input, and not that of b's weight.
    assert phases(r.profile, "a")[1] == (wanted == "a.weight")
    assert phases(r.profile, "b")[1] == 1
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_penalty_on_the_gradient_is_a_backward_of_a_backward():
    """As in a critic with a gradient penalty: the second backward goes through the first one's products."""
    model, x = Two(), rows(grad=True)

    with flopsight.recording(model) as r:
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (gradient.pow(2).sum()).backward()

    # Input gradients first, one a layer. Then through b's product to its weight and through a's to both of its
    # operands; tanh's derivative brings a second way down to a's weight and input.
    assert phases(r.profile, "a")[0] == phases(r.profile, "b")[0] == 1
    assert phases(r.profile, "b")[1] == 1 + 1
    assert phases(r.profile, "a")[1] == 1 + 2 + 2


def test_mixed_precision_with_a_scaler_is_counted_in_the_dtype_it_ran_in():
    model = Two()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    with flopsight.recording(model) as r:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(rows()).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    assert phases(r.profile, "a") == (1, 1, 0)
    assert phases(r.profile, "b") == (1, 2, 0)
    products = [row for path in "ab" for row in r.profile[path].ops if row.cost.macs]
    assert products
    assert {row.dtype for row in products} == {"bfloat16"}
    assert r.profile.optimizer.macs == 0
    assert r.profile.optimizer.flops >= 2 * WEIGHTS  # the update; unscaling and clipping come on top
    assert r.profile["a"].optimizer.flops == r.profile["b"].optimizer.flops == WEIGHTS


def test_a_hook_on_a_parameter_runs_in_backward_where_the_parameter_belongs():
    model = Two()
    seen = []
    model.a.weight.register_hook(lambda gradient: seen.append(gradient.shape) or gradient * 2)
    model.b.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.mul_(3).shape))
    plain = flopsight.count(Two(), (rows(),), train=True)

    profile = flopsight.count(model, (rows(),), train=True)

    assert len(seen) == 2
    assert profile["a"].backward.flops == plain["a"].backward.flops + WIDE * WIDE
    assert profile["b"].backward.flops == plain["b"].backward.flops + WIDE * WIDE


def test_an_optimizer_that_steps_inside_backward_is_the_optimizer_of_its_parameter():
    """Fused into backward, each parameter is updated as soon as its gradient is there, and the gradient is freed."""
    model = Two()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)

    with flopsight.recording(model) as r:
        model(rows()).sum().backward()

    assert phases(r.profile) == (2, 3, 0)
    assert r.profile["a"].optimizer.flops == r.profile["b"].optimizer.flops == WEIGHTS


def test_a_compiled_model_is_counted_eager_and_compiles_afterwards():
    graphs = []

    def backend(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    plain = Two()
    model = torch.compile(plain, backend=backend)
    x = rows()

    profile = flopsight.count(model, (x,), train=True)

    assert graphs == []
    assert phases(profile, "a") == (1, 1, 0)
    assert phases(profile, "b") == (1, 2, 0)
    torch.testing.assert_close(model(x), plain(x))
    assert len(graphs) == 1
    flopsight.count(model, (x,), train=True)
    model(x)
    assert len(graphs) == 1


def test_counting_leaves_the_gradients_of_a_user_s_step_as_they_are_without_it():
    model, x = Two(), rows()
    twin = copy.deepcopy(model)

    with flopsight.recording(model):
        F.mse_loss(model(x), x).backward()
    F.mse_loss(twin(x), x).backward()

    for mine, plain in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine.grad, plain.grad)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "LBFGS"])
def test_every_optimizer_works_on_the_parameters_of_their_modules(kind):
    model = Two()
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1)
    x = rows()

    with flopsight.recording(model) as r:

        def closure():
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            return loss

        optimizer.step(closure)

    calls = r.profile.root.calls
    assert calls >= 1
    assert phases(r.profile) == (2 * calls, 3 * calls, 0)  # what the closure runs is no work of the optimizer
    assert r.profile.optimizer.flops > 0


@since((2, 9), "Muon")
def test_an_optimizer_that_multiplies_views_of_its_momentum_works_in_the_modules_of_the_parameters():
    """Muon orthogonalises the momentum of each matrix: products of transposed views, five rounds of them."""
    model = nn.Sequential(nn.Linear(WIDE, 2 * WIDE, bias=False), nn.Tanh(), nn.Linear(2 * WIDE, WIDE, bias=False))
    optimizer = torch.optim.Muon(model.parameters(), lr=0.1, ns_steps=5)

    with flopsight.recording(model) as r:
        model(rows()).sum().backward()
        optimizer.step()

    # For a matrix of a rows and 2a columns, a round multiplies (a, 2a) @ (2a, a), (a, a) @ (a, a), (a, a) @ (a, 2a).
    each = 5 * (2 * WIDE**3 + WIDE**3 + 2 * WIDE**3)
    assert r.profile["0"].optimizer.macs == r.profile["2"].optimizer.macs == each
    assert r.profile.optimizer.macs == 2 * each
