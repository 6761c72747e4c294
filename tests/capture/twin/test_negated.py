"""Tensors that read their memory negated or conjugated: most ops make a plain copy of them first, on meta too."""

import pytest
import torch
from torch import nn

import flopsight

ROWS, WIDTH, FLOAT = 4, 8, 4


def negated(tensor):
    """The same values, stored with the other sign."""
    return torch._neg_view(tensor.neg())


def figures(profile):
    """Every figure of every row, and the peak."""
    rows = {
        node.path: (node.own.forward, node.own.backward, node.own_activation_bytes, node.own_peak_bytes)
        for node in profile.walk()
    }
    return rows, profile.peak_bytes


def both(model, x, *, train=True):
    """The same run on real tensors and on meta."""
    with torch.set_grad_enabled(train):
        real = flopsight.profile(model, (x,), train=train, latency=False)
        return real, flopsight.count(model, (x,), train=train, on="meta")


def linear(weight):
    layer = nn.Linear(WIDTH, WIDTH, bias=False)
    layer.weight = nn.Parameter(weight)
    return layer


def test_a_weight_that_is_stored_negated_is_copied_first():
    x, weight = torch.randn(ROWS, WIDTH), torch.randn(WIDTH, WIDTH)
    _, plain = both(linear(weight), x)
    real, meta = both(linear(negated(weight)), x)

    read, written = [FLOAT * WIDTH * WIDTH] * 2
    assert meta.root.forward.bytes == plain.root.forward.bytes + read + written
    assert figures(real) == figures(meta)


class Turns(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=torch.complex64).conj())

    def forward(self, x):
        return (torch.complex(x, x) * self.weight).abs()


def batch_norm():
    layer = nn.BatchNorm1d(WIDTH)
    layer.running_mean, layer.running_var = negated(layer.running_mean), negated(layer.running_var)
    return layer


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize(
    ("model", "x"),
    [
        (batch_norm(), torch.randn(ROWS, WIDTH)),
        (Turns(), torch.randn(WIDTH, WIDTH)),
        (nn.Linear(WIDTH, WIDTH), negated(torch.randn(ROWS, WIDTH))),
        (nn.Linear(WIDTH, WIDTH), negated(torch.randn(3 * ROWS, WIDTH))[ROWS:-ROWS]),
    ],
    ids=["statistics", "conjugated", "input", "part of an input"],
)
def test_every_figure_is_the_same_on_meta(model, x, train):
    real, meta = both(model.train(train), x, train=train)

    assert figures(real) == figures(meta)


@pytest.mark.parametrize("part", [slice(None), slice(1, 3)], ids=["whole", "part"])
def test_code_that_asks_for_a_negated_value_gets_it_with_its_sign(part):
    asked = []

    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", negated(torch.arange(1.0, 5.0)))
            self.constant = torch.arange(2.0, 6.0)

        def forward(self, x):
            asked.extend((self.scale[1].item(), x.sum().item(), (x + negated(self.constant)[part])[0].item()))
            return x

    x = negated(torch.arange(1.0, 5.0))[part]

    flopsight.count(Asks(), (x,), on="meta")

    first = 2.0 if part.start else 1.0
    total = 2.0 + 3.0 if part.start else 1.0 + 2.0 + 3.0 + 4.0
    assert asked == [2.0, total, first + first + 1]
