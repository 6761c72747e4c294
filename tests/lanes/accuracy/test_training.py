"""A training step of models with grouped convolutions: every layer's MACs against its own arithmetic."""

from math import prod

import pytest
import torch
import torchvision
from torch import nn

import flopsight

MODELS = ("mobilenet_v2", "efficientnet_b0", "convnext_tiny", "resnext50_32x4d")


def forward_macs(layer, output):
    """What a layer multiplies to make an output of this shape."""
    if isinstance(layer, nn.Linear):
        return prod(output) * layer.in_features
    return prod(output) * layer.in_channels // layer.groups * prod(layer.kernel_size)


def outputs_by_layer(model, x):
    """The shapes that come out of convolutions and linear layers, in the order in which they run."""
    shapes = {}
    layers = {path: layer for path, layer in model.named_modules() if isinstance(layer, nn.Conv2d | nn.Linear)}
    hooks = [
        layer.register_forward_hook(lambda _layer, _args, output, path=path: shapes.update({path: output.shape}))
        for path, layer in layers.items()
    ]
    model(x)
    for hook in hooks:
        hook.remove()
    return layers, shapes


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize("name", MODELS)
def test_both_gradients_of_every_layer_cost_what_its_forward_costs(name, on):
    """The gradient of the data and that of the weights are as many products; the first layer's data needs none."""
    model = torchvision.models.get_model(name, weights=None).train()
    x = torch.randn(2, 3, 64, 64)
    layers, shapes = outputs_by_layer(model, x)
    assert any(layer.groups > 1 for layer in layers.values() if isinstance(layer, nn.Conv2d))

    profile = flopsight.count(model, (x,), train=True, on=on)

    first = next(iter(shapes))
    for path, shape in shapes.items():
        macs = forward_macs(layers[path], shape)
        assert profile[path].own.forward.macs == macs, path
        assert profile[path].own.backward.macs == (macs if path == first else 2 * macs), path
    assert profile.macs == sum(forward_macs(layers[path], shape) for path, shape in shapes.items())


@pytest.mark.parametrize("on", ["real", "meta"])
def test_frozen_layers_pass_gradients_on_and_get_none(on):
    model = torchvision.models.mobilenet_v2(weights=None).train()
    model.features[:10].requires_grad_(False)
    x = torch.randn(2, 3, 64, 64)
    layers, shapes = outputs_by_layer(model, x)

    profile = flopsight.count(model, (x,), train=True, on=on)

    frozen = [path for path in shapes if path.startswith("features.") and int(path.split(".")[1]) < 10]
    first_trained = next(path for path in shapes if path not in frozen)
    assert all(profile[path].own.backward.macs == 0 for path in frozen), "nothing before them is trained either"
    assert profile[first_trained].own.backward.macs == forward_macs(layers[first_trained], shapes[first_trained])


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_frozen_middle_costs_the_gradient_of_its_data_alone(on):
    model = torchvision.models.mobilenet_v2(weights=None).train()
    model.features[5:10].requires_grad_(False)
    x = torch.randn(2, 3, 64, 64)
    layers, shapes = outputs_by_layer(model, x)

    profile = flopsight.count(model, (x,), train=True, on=on)

    frozen = [path for path in shapes if path.startswith("features.") and 5 <= int(path.split(".")[1]) < 10]
    assert frozen
    for path in frozen:
        assert profile[path].own.backward.macs == forward_macs(layers[path], shapes[path]), path
