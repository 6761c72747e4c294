"""Backward by module against arithmetic: products of layers, convolutions grouped and not, norms, recurrence."""

import pytest
import torch
from torch import nn

import flopsight
from flopsight.zoo.catalogue import build

ON = pytest.mark.parametrize("on", ["real", "meta"])


def macs(profile, phase):
    """MACs of leaves by path, where there are any."""
    return {
        node.path: getattr(node, phase).macs
        for node in profile.walk()
        if not node.children and getattr(node, phase).macs
    }


def train(model, *args, on="real", **options):
    return flopsight.count(model, args, train=True, on=on, **options)


@ON
def test_a_perceptron_runs_two_products_a_layer_backward_and_one_in_the_first(on):
    rows, sizes = 32, (20, 64, 48, 10)
    layers = [nn.Linear(i, o) for i, o in zip(sizes, sizes[1:])]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.Tanh(), layers[2])

    profile = train(model, torch.randn(rows, sizes[0]), on=on)

    assert macs(profile, "forward") == {"0": rows * 20 * 64, "2": rows * 64 * 48, "4": rows * 48 * 10}
    assert macs(profile, "backward") == {"0": rows * 20 * 64, "2": 2 * rows * 64 * 48, "4": 2 * rows * 48 * 10}
    # Biases: a sum over the rows. Activations: one product an element of ReLU; tanh's gradient is one op an element.
    assert profile["0"].backward.flops == 2 * rows * 20 * 64 + rows * 64
    assert profile["4"].backward.flops == 4 * rows * 48 * 10 + rows * 10
    assert profile["1"].backward.flops == rows * 64
    assert profile["3"].backward.flops == rows * 48


BATCH = 2
RESNET_CONVS = {"conv1": (3, 64, 7, 112)}
for stage, channels in ((1, 64), (2, 128), (3, 256), (4, 512)):
    before, side = (64 if stage == 1 else channels // 2), 112 // 2**stage
    RESNET_CONVS |= {
        f"layer{stage}.0.conv1": (before, channels, 3, side),
        f"layer{stage}.0.conv2": (channels, channels, 3, side),
        f"layer{stage}.1.conv1": (channels, channels, 3, side),
        f"layer{stage}.1.conv2": (channels, channels, 3, side),
    }
    if stage > 1:
        RESNET_CONVS[f"layer{stage}.0.downsample.0"] = (before, channels, 1, side)
"""Channels in, channels out, kernel, side of the output."""


@ON
def test_every_convolution_of_resnet18_runs_its_forward_once_for_each_gradient(on):
    model, args, _ = build("resnet18", BATCH)

    profile = train(model.train(), *args, on=on)

    products = {
        path: BATCH * out * side**2 * into * kernel**2 for path, (into, out, kernel, side) in RESNET_CONVS.items()
    }
    assert len(products) == 20
    products["fc"] = BATCH * 512 * 1000
    assert macs(profile, "forward") == products
    # The images need no gradient, so the first convolution has the one of its weight only.
    assert macs(profile, "backward") == {path: (1 + (path != "conv1")) * n for path, n in products.items()}


@ON
def test_norms_and_activations_of_resnet18_go_back_over_every_element(on):
    model, args, _ = build("resnet18", BATCH)

    profile = train(model.train(), *args, on=on)

    elements = lambda stage: BATCH * 64 * 2 ** (stage - 1) * (112 // 2**stage) ** 2
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            place = f"layer{stage}.{block}"
            for norm in ("bn1", "bn2"):
                assert profile[f"{place}.{norm}"].forward.flops == 5 * elements(stage)
                assert profile[f"{place}.{norm}"].backward.flops == 10 * elements(stage)
            assert profile[f"{place}.relu"].calls == 2
            assert profile[f"{place}.relu"].backward.flops == 2 * elements(stage)
    assert profile["bn1"].backward.flops == 10 * BATCH * 64 * 112**2


@ON
@pytest.mark.parametrize(("channels", "groups"), [(16, 4), (16, 16), (8, 1)])
def test_a_grouped_convolution_has_the_products_of_its_groups_backward_too(channels, groups, on):
    """Torch's own counter has charged grouped backwards as dense ones: 22x too much on a depthwise net."""
    batch, side, kernel = 2, 12, 3
    model = nn.Sequential(
        nn.Conv2d(3, channels, 1),
        nn.Conv2d(channels, channels, kernel, padding=1, groups=groups, bias=False),
        nn.Conv2d(channels, channels * 2, 1, bias=False),
    )

    profile = train(model, torch.randn(batch, 3, side, side), on=on)

    places = batch * side**2
    grouped = places * channels * (channels // groups) * kernel**2
    assert macs(profile, "forward") == {
        "0": places * 3 * channels, "1": grouped, "2": places * 2 * channels**2,
    }  # fmt: skip
    assert macs(profile, "backward") == {
        "0": places * 3 * channels, "1": 2 * grouped, "2": 4 * places * channels**2,
    }  # fmt: skip


@ON
def test_a_depthwise_separable_net_with_strides_and_transposed_convolutions(on):
    batch, side = 2, 16
    model = nn.Sequential(
        nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8, bias=False),
        nn.Conv2d(8, 24, 1, bias=False),
        nn.ConvTranspose2d(24, 12, 2, stride=2, groups=4, bias=False),
    )

    profile = train(model, torch.randn(batch, 8, side, side, requires_grad=True), on=on)

    half = batch * (side // 2) ** 2
    products = {"0": half * 8 * 9, "1": half * 8 * 24, "2": half * 24 * (12 // 4) * 4}
    assert macs(profile, "forward") == products
    assert macs(profile, "backward") == {path: 2 * n for path, n in products.items()}


@ON
@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_a_recurrent_layer_goes_back_through_every_step(kind, gates, on):
    batch, steps, into, hidden = 3, 7, 5, 6
    model = kind(into, hidden, num_layers=2, batch_first=True)

    profile = train(model, torch.randn(batch, steps, into, requires_grad=True), loss=lambda out: out[0].sum(), on=on)

    first, second = (batch * steps * gates * hidden * (width + hidden) for width in (into, hidden))
    # The state that a layer begins with is zero and needs no gradient; only the LSTM's fused kernel makes it all the same.
    unneeded = 0 if kind is nn.LSTM else 2 * batch * gates * hidden * hidden
    assert profile.macs == first + second
    assert profile.backward.macs == 2 * (first + second) - unneeded


@ON
def test_a_tied_head_is_charged_for_its_own_products_and_both_gradients_reach_the_weight(on):
    words, wide, batch, length = 50, 16, 2, 6

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.mix = nn.Embedding(words, wide), nn.Linear(wide, wide, bias=False)
            self.head = nn.Linear(wide, words, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids):
            return self.head(self.mix(self.words(ids)))

    profile = train(Tied(), torch.randint(words, (batch, length)), on=on)

    tokens = batch * length
    assert macs(profile, "forward") == {"mix": tokens * wide**2, "head": tokens * wide * words}
    assert macs(profile, "backward") == {"mix": 2 * tokens * wide**2, "head": 2 * tokens * wide * words}
    assert profile.root.grad_bytes == 4 * (words * wide + wide * wide)  # one gradient for the tied weight


@ON
def test_a_frozen_half_has_no_weight_gradients_and_before_it_nothing_runs(on):
    rows, wide = 8, 16
    x = rows * wide * wide
    layers = [nn.Linear(wide, wide, bias=False) for _ in range(6)]
    model = nn.Sequential(*layers)
    for layer in (*layers[:3], layers[4]):
        layer.requires_grad_(False)

    profile = train(model, torch.randn(rows, wide), on=on)

    # 0 to 2: nobody below needs a gradient. 3: only its weight. 4: frozen, but passes the gradient on. 5: both.
    assert macs(profile, "backward") == {"3": x, "4": x, "5": 2 * x}
    assert profile.root.grad_bytes == 4 * 2 * wide * wide


@ON
def test_a_frozen_model_with_low_rank_adapters_runs_its_frozen_products_once_backward(on):
    rows, wide, rank, depth = 8, 32, 4, 3
    x, thin = rows * wide * wide, rows * wide * rank

    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(wide, wide).requires_grad_(False)
            self.down, self.up = nn.Linear(wide, rank, bias=False), nn.Linear(rank, wide, bias=False)

        def forward(self, x):
            return self.base(x) + 0.5 * self.up(self.down(x))

    model = nn.Sequential(*(Adapted() for _ in range(depth)))

    profile = train(model, torch.randn(rows, wide), on=on)

    for i in range(depth):
        first = i == 0  # its input needs no gradient: the frozen product has no backward at all there
        assert profile[f"{i}.base"].backward.macs == (0 if first else x)
        assert profile[f"{i}.down"].backward.macs == (1 if first else 2) * thin
        assert profile[f"{i}.up"].backward.macs == 2 * thin
    assert profile.trainable_params == depth * 2 * wide * rank
    assert profile.root.grad_bytes == 4 * depth * 2 * wide * rank
