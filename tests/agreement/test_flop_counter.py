"""torch's own counter agrees with ours wherever it has no fault, module by module, forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from releases import TORCH
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import flopsight
from flopsight import zoo

MODELS = ["lenet5", "alexnet", "resnet18", "pointnet"]
"""Convolutions in one group and linear layers: nothing that torch's counter is known to get wrong."""


def by_torch(model, step):
    """MACs by module path."""
    with FlopCounterMode(display=False) as counter:
        step()
    root = type(model).__name__
    counts = {path: sum(ops.values()) // 2 for path, ops in counter.get_flop_counts().items()}
    return {path: counts.get(f"{root}.{path}" if path else root, 0) for path, _ in model.named_modules()}


@pytest.mark.parametrize("name", MODELS)
def test_every_module_of_an_embedded_model_has_torchs_macs(name):
    with torch.device("meta"):
        model, args, kwargs = zoo.build(name)
    model.eval()

    profile = flopsight.count(model, args, kwargs)

    assert {path: profile[path].macs for path, _ in model.named_modules()} == by_torch(
        model, lambda: model(*args, **kwargs)
    )


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_training_step_has_torchs_macs(on):
    model, args, kwargs = zoo.build("lenet5", batch=2)

    profile = flopsight.count(model, args, kwargs, train=True, on=on)

    with FlopCounterMode(display=False) as counter:
        model(*args, **kwargs).sum().backward()
    assert profile.macs + profile.backward.macs == counter.get_total_flops() // 2


def test_attention_written_as_products_has_torchs_macs():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

        def forward(self, x):
            query, key, value = self.qkv(x).chunk(3, -1)
            return self.out(torch.softmax(query @ key.transpose(-1, -2), -1) @ value)

    model, x = Attention(), torch.ones(2, 6, 32)

    profile = flopsight.count(model, (x,))

    assert {path: profile[path].macs for path in ("", "qkv", "out")} == by_torch(model, lambda: model(x))


def test_where_torchs_counter_says_nothing_we_do_not():
    """The faults that docs/accuracy.md names, each in the smallest case; a torch without one of them shows up here."""
    query = torch.ones(1, 2, 4, 8)
    lstm, x = nn.LSTM(8, 16), torch.ones(5, 3, 8)
    depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
    image = torch.ones(1, 8, 6, 6, requires_grad=True)
    forward = 6 * 6 * 8 * 3 * 3

    with FlopCounterMode(display=False) as attention:
        F.scaled_dot_product_attention(query, query, query)
    with FlopCounterMode(display=False) as recurrent:
        lstm(x)
    with FlopCounterMode(display=False) as grouped:
        depthwise(image).sum().backward()

    assert attention.get_total_flops() == (0 if TORCH < (2, 15) else 2 * 2 * (2 * 4 * 4) * 8)
    assert recurrent.get_total_flops() == 0
    assert grouped.get_total_flops() // 2 > 3 * forward
    assert flopsight.count(depthwise, (image,), train=True).backward.macs == 2 * forward
