"""What ops return on the twin is what the CPU's kernels return: shape, memory order, precision, or nothing."""

import pytest
import torch
from torch import nn

import flopsight
from flopsight.results.caveats import NoTwin

BATCH, CHANNELS, HEIGHT, WIDTH = 2, 4, 6, 8
ELEMENTS = BATCH * CHANNELS * HEIGHT * WIDTH
FIGURES = ("macs", "flops", "bytes")


def plain():
    return torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)


def channels_last():
    return plain().contiguous(memory_format=torch.channels_last)


def transposed():
    return torch.randn(BATCH, CHANNELS, WIDTH, HEIGHT).transpose(-1, -2)


def figures(profile):
    """Every figure of every row, and the peak."""
    rows = {
        node.path: [
            *(getattr(getattr(node.own, phase), figure) for phase in ("forward", "backward") for figure in FIGURES),
            node.own_activation_bytes,
            node.own_peak_bytes,
        ]
        for node in profile.walk()
    }
    return rows, profile.peak_bytes


def both(model, *args, train=True):
    """The same run on real tensors and on meta."""
    with torch.set_grad_enabled(train):
        real = flopsight.profile(model, args, train=train, latency=False)
        return real, flopsight.count(model, args, train=train, on="meta")


LAYERS = [
    nn.BatchNorm2d(CHANNELS), nn.GroupNorm(2, CHANNELS), nn.LayerNorm(WIDTH), nn.ELU(), nn.Hardswish(), nn.Hardsigmoid(),
    nn.Softplus(), nn.LogSigmoid(), nn.Mish(), nn.ReLU6(), nn.GLU(), nn.ReflectionPad2d(1), nn.ReplicationPad2d(1),
    nn.ChannelShuffle(2), nn.Conv2d(CHANNELS, 1, 3),
]  # fmt: skip


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("given", [plain, channels_last, transposed])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_a_layer_between_others_costs_the_same_on_meta(layer, given, train):
    """What comes after a layer shows the memory order that it returned: reshaping copies what is not contiguous."""

    class Between(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.after = layer, nn.Linear(1, 1)

        def forward(self, x):
            made = self.layer(x.exp() * x)
            return self.after(made.flatten().unsqueeze(-1))

    real, meta = both(Between().train(train), given().requires_grad_(train), train=train)

    assert figures(meta) == figures(real)
    assert not meta.caveats


@pytest.mark.parametrize("on", ["real", "meta"])
def test_batch_norm_in_inference_reads_four_vectors_and_writes_none(on):
    with torch.no_grad():
        profile = flopsight.count(nn.BatchNorm2d(CHANNELS).eval(), (plain(),), on=on)

    weight_bias_mean_variance = 4 * CHANNELS
    assert profile.forward.bytes == 4 * (ELEMENTS + weight_bias_mean_variance + ELEMENTS)


@pytest.mark.parametrize("on", ["real", "meta"])
def test_batch_norm_of_a_transposed_input_returns_a_plain_one(on):
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(CHANNELS)

        def forward(self, x):
            return self.norm(x.transpose(1, 2)).flatten()  # no copy: what the norm returns is contiguous

    with torch.no_grad():
        profile = flopsight.count(Normed().eval(), (torch.randn(BATCH, WIDTH, CHANNELS),), on=on)

    assert profile.forward.bytes == 4 * (2 * BATCH * WIDTH * CHANNELS + 4 * CHANNELS)


@pytest.mark.parametrize(("weights", "statistics"), [(torch.bfloat16, 2), (torch.float32, 4)])
@pytest.mark.parametrize("on", ["real", "meta"])
def test_layer_norm_keeps_statistics_as_precise_as_its_weights(on, weights, statistics):
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH, dtype=weights)

        def forward(self, x):
            return self.norm(x.bfloat16())

    profile = flopsight.count(Normed(), (torch.randn(CHANNELS, WIDTH),), train=True, on=on)

    mean_and_deviation = 2 * CHANNELS * statistics
    assert profile.activation_bytes == 2 * CHANNELS * WIDTH + mean_and_deviation


@pytest.mark.parametrize("on", ["real", "meta"])
def test_the_gradient_of_a_sum_in_half_precision_takes_the_order_of_the_other_operand(on):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(CHANNELS, WIDTH, dtype=torch.bfloat16))

        def forward(self, x):
            return torch.sigmoid(self.weight.t().clone() * x)

    profile = flopsight.count(
        Scaled(), (torch.ones(WIDTH, CHANNELS).bfloat16().t().contiguous().t(),), train=True, on=on
    )

    own = profile.root.own
    clone, product, sigmoid = 2, 3, 2
    assert own.forward.bytes == 2 * CHANNELS * WIDTH * (clone + product + sigmoid)
    one_number, sigmoid_backward, product_backward = 2, 2, 3
    assert own.backward.bytes == one_number + 2 * CHANNELS * WIDTH * (sigmoid_backward + product_backward), (
        "no copy brings a gradient into another order"
    )


def test_a_sparse_gradient_costs_the_same_on_meta():
    real, meta = both(nn.Embedding(10, WIDTH, sparse=True), torch.randint(10, (BATCH, 3)))

    assert figures(meta) == figures(real)
    assert not any(isinstance(caveat, NoTwin) for caveat in meta.caveats)
