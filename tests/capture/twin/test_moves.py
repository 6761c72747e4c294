"""Moves to where a tensor is already: no copy on real tensors, and none on the twin."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import flopsight
from flopsight.results.caveats import NoTwin

ROWS, WIDTH = 4, 8
GIVEN = 4 * ROWS * WIDTH
WEIGHTS = 4 * (WIDTH * WIDTH + WIDTH)
LAYER = GIVEN + WEIGHTS + GIVEN
"""Bytes of the layer alone: input, weight and bias, output."""


class Moved(nn.Module):
    """A layer on what becomes of its input."""

    def __init__(self, change):
        super().__init__()
        self.change, self.layer = change, nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.layer(self.change(x))


def count(change, on):
    return flopsight.count(Moved(change), (torch.randn(ROWS, WIDTH),), train=True, on=on)


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.to("cpu"),
        lambda x: x.to(torch.device("cpu"), torch.float32),
        lambda x: x.to(x),
        lambda x: x.cpu(),
        lambda x: x.type(x.type()),
        lambda x: x.type("torch.FloatTensor"),
        lambda x: x.type(torch.FloatTensor),
        lambda x: torch.as_tensor(x, dtype=torch.float32, device="cpu"),
    ],
)
def test_a_move_that_moves_nothing_leaves_an_input_an_input(change, on):
    profile = count(change, on)

    assert profile.root.own.forward.bytes + profile["layer"].forward.bytes == LAYER
    assert profile.activation_bytes == 0


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.to("cpu", copy=True),
        lambda x: x.to(torch.float32, copy=True),
        lambda x: x.to(x, copy=True),
        lambda x: x.to(memory_format=torch.contiguous_format, copy=True),
    ],
)
def test_a_copy_that_is_asked_for_is_made(change, on):
    profile = count(change, on)

    assert profile.root.own.forward.bytes == GIVEN + GIVEN
    assert profile.activation_bytes == GIVEN, "the layer keeps the copy"


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_new_tensor_that_is_moved_to_its_own_device_is_there_once(on):
    profile = count(lambda x: x * torch.ones(ROWS, WIDTH).to(x.device), on)

    ones, product = GIVEN, 3 * GIVEN
    assert profile.root.own.forward.bytes == ones + product


class TwiceOnTheCPU(nn.Module):
    """Looks at the device before it goes on."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = self.layer(x)
        return self.layer(x).relu() if x.device.type == "cpu" else x


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.twice = TwiceOnTheCPU()

    def forward(self, x):
        return checkpoint(self.twice, x, use_reentrant=False)


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_module_that_backward_runs_again_is_told_the_same_device(on):
    profile = flopsight.count(Recomputed(), (torch.randn(ROWS, WIDTH),), train=True, on=on)

    assert profile.macs == profile.recompute.macs == 2 * ROWS * WIDTH * WIDTH
    assert not [doubt for doubt in profile.caveats if isinstance(doubt, NoTwin)]


class Devices(torch.autograd.Function):
    """A function whose backward looks at the device."""

    seen = ""

    @staticmethod
    def forward(_ctx, x):
        return x * 2

    @staticmethod
    def backward(_ctx, grad):
        Devices.seen = grad.device.type
        return grad * 2


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_function_of_the_users_is_told_the_same_device_in_backward(on):
    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            return Devices.apply(self.layer(x))

    flopsight.count(Doubled(), (torch.randn(ROWS, WIDTH),), train=True, on=on)

    assert Devices.seen == "cpu"
