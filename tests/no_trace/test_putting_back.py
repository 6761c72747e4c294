"""What a run changed is put back: parameters that are shards, and everything else where one thing cannot be."""

import random

import pytest
import torch
from releases import since
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import flopsight
from flopsight.capture.model.restore import put_all_back
from flopsight.errors import StateError


@pytest.fixture
def mesh():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def shards(model, optimizer):
    """Values and versions of the parameters and of what the optimizer keeps for them, as plain tensors."""
    states = [value for state in optimizer.state.values() for value in state.values() if hasattr(value, "to_local")]
    held = [*model.parameters(), *states]
    values = [tensor.to_local().detach().clone() for tensor in held]
    return values, [(tensor._version, tensor.to_local()._version) for tensor in held]


@since((2, 7), "FSDP2 on a CPU")
@pytest.mark.parametrize("measure", [flopsight.count, flopsight.profile])
def test_parameters_that_are_shards_keep_values_and_versions_when_an_optimizer_steps(mesh, measure):
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0)
    batch = torch.randn(4, 8)
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    values, versions = shards(model, optimizer)

    profile = measure(model, (batch,), train=True, optimizer=optimizer)

    after, versions_after = shards(model, optimizer)
    assert len(values) == 4 + 2 * 4, "four parameters, each with two averages"
    assert all(map(torch.equal, values, after))
    assert versions == versions_after
    assert profile.macs == 4 * 8 * 16 + 4 * 16 * 4


class Shrinks(nn.Module):
    """One buffer changes its shape, which nothing can be copied into; another one only its values."""

    def __init__(self):
        super().__init__()
        self.register_buffer("shrinks", torch.ones(8))
        self.register_buffer("counts", torch.zeros(1))
        self.seen = []

    def forward(self, batch):
        self.shrinks.resize_(2)
        self.counts += 1
        self.seen.append(1)
        self.train(False)
        return batch * 2


def test_where_one_tensor_cannot_be_put_back_everything_else_still_is():
    model = Shrinks()

    with pytest.raises(StateError, match="Not everything that the run changed could be put back"):
        flopsight.count(model, (torch.ones(4),))

    assert model.counts.item() == 0
    assert model.seen == []
    assert model.training


def test_every_step_is_taken_after_one_that_raised():
    taken = []

    def fails():
        raise ValueError("no")

    with pytest.raises(StateError, match="ValueError: no"):
        put_all_back([lambda: taken.append(1), fails, lambda: taken.append(2)])

    assert taken == [1, 2]


class Jagged(nn.Module):
    def __init__(self):
        super().__init__()
        rows = [torch.ones(3, 4), torch.ones(2, 4)]
        self.register_buffer("rows", torch.nested.nested_tensor(rows, layout=torch.jagged))

    def forward(self, batch):
        self.rows.values().mul_(3)
        return batch * 2


def test_a_jagged_buffer_that_is_written_into_is_put_back():
    model = Jagged()

    flopsight.count(model, (torch.ones(4),))

    assert model.rows.values().sum().item() == 5 * 4


class Adapts(nn.Module):
    """Trains a part of itself in every forward."""

    def __init__(self, optimizer=None):
        super().__init__()
        self.adapted, self.head = nn.Linear(4, 1), nn.Linear(4, 2)
        self.optimizer = None if optimizer is None else optimizer(self.adapted.parameters())

    def forward(self, x):
        optimizer = self.optimizer or torch.optim.SGD(self.adapted.parameters(), lr=0.1)
        with torch.enable_grad():
            self.adapted(x.detach()).sum().backward()
        optimizer.step()
        return self.head(x)


@pytest.mark.parametrize("optimizer", [None, torch.optim.Adam], ids=["made in the forward", "kept"])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("on", ["real", "copy", "meta"])
def test_what_an_optimizer_changes_that_a_forward_steps_is_put_back(on, train, optimizer):
    model = Adapts(optimizer)
    before = {name: value.clone() for name, value in model.state_dict().items()}

    profile = flopsight.count(model, (torch.ones(3, 4),), train=train, on=on)
    if on == "real":
        flopsight.profile(model, (torch.ones(3, 4),), train=train, warmup=1, repeats=2)

    assert profile.optimizer.flops > 0
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not (model.optimizer and model.optimizer.state)


@pytest.mark.parametrize("measure", [flopsight.count, flopsight.profile])
def test_statistics_that_are_stored_negated_are_put_back(measure):
    model = nn.BatchNorm1d(4)
    model.running_mean = torch._neg_view(torch.arange(4.0))
    model.running_var = torch._neg_view(-torch.arange(1.0, 5.0))
    model.register_buffer("turns", torch.randn(4, dtype=torch.complex64).conj())
    before = {name: (buffer, buffer.clone(), buffer._version) for name, buffer in model.named_buffers()}

    measure(model, (torch.randn(3, 4),), train=True)

    for name, (buffer, value, version) in before.items():
        assert model.get_buffer(name) is buffer
        assert torch.equal(buffer, value)
        assert buffer._version == version


class TrainsWithin(nn.Module):
    """Runs a backward in its forward, from a generator of losses."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 2, bias=False)

    def forward(self, x):
        with torch.enable_grad():
            torch.autograd.backward(loss for loss in [self.linear(x).sum()])
        assert self.linear.weight.grad is not None
        return self.linear(x)


def test_losses_that_can_be_read_once_are_left_to_the_backward():
    model = TrainsWithin()

    p = flopsight.count(model, (torch.ones(4, 8),))

    assert (p.macs, p.backward.macs) == (2 * 4 * 8 * 2, 4 * 8 * 2)
    assert model.linear.weight.grad is None


DRAWING = """
import random
import torch

random.random(), torch.manual_seed(3)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))

    def forward(self, x):
        return self.layers[1](self.layers[0](x))
"""
SIZED = {"input_shape": (2, 8)}


@pytest.mark.parametrize(
    "measure",
    [
        lambda target: flopsight.count(target, **SIZED),
        lambda target: flopsight.count("zoo:gpt2", input_shape=(1, 8), on="meta"),
        lambda target: flopsight.profile(target, **SIZED, warmup=1, repeats=1),
        lambda target: flopsight.plan(target, gpus=2, on="h100-sxm", batch=4, **SIZED),
        lambda target: flopsight.sweep(target, {"batch": [1, 2]}, inputs="{batch}x8", meta=False, repeats=1),
    ],
    ids=["count", "tokens", "profile", "plan", "sweep"],
)
def test_a_model_that_is_built_here_draws_none_of_the_user_s_random_numbers(tmp_path, measure):
    file = tmp_path / "drawing.py"
    file.write_text(DRAWING)
    drawn, states = random.getstate(), torch.get_rng_state()

    measure(f"{file}:Net")

    assert (random.getstate() == drawn, torch.equal(torch.get_rng_state(), states)) == (True, True)
