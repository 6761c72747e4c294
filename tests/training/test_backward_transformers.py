"""Backward and recompute of a transformer by module: attention fused and not, and every way to checkpoint its blocks."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from training.transformer import (
    CHECKPOINTS,
    CLASSES,
    LAYERS,
    PRODUCTS,
    SCORES,
    SQUARE,
    TOKENS,
    WIDTH,
    Transformer,
    tokens,
)  # fmt: skip

import flopsight

ON = pytest.mark.parametrize("on", ["real", "meta"])
FUSED, MATH = 2.5, 2.0
"""How many times its forward the backward of attention takes."""


def train(model, x, on="real"):
    return flopsight.count(model, (x,), train=True, on=on)


@ON
@pytest.mark.parametrize(("kernel", "ratio"), [(SDPBackend.FLASH_ATTENTION, FUSED), (SDPBackend.MATH, MATH)])
def test_attention_goes_back_as_the_kernel_that_runs_it_does(kernel, ratio, on):
    with sdpa_kernel(kernel):
        profile = train(Transformer(), tokens(), on)

    for i in range(LAYERS):
        block = profile[f"blocks.{i}"]
        assert block.own.forward.macs == 2 * SCORES
        assert block.own.backward.macs == ratio * 2 * SCORES
        for name, size in PRODUCTS.items():
            assert profile[f"blocks.{i}.{name}"].forward.macs == size * SQUARE
            assert profile[f"blocks.{i}.{name}"].backward.macs == 2 * size * SQUARE
    blocks = LAYERS * (sum(PRODUCTS.values()) * SQUARE + 2 * SCORES)
    assert profile.macs == blocks + TOKENS * WIDTH * CLASSES
    again = (ratio - MATH) * LAYERS * 2 * SCORES
    assert profile.backward.macs == 2 * profile.macs + again
    assert profile.backward.recompute_macs == again  # what the fused kernel forms again is no work of the model


@ON
def test_attention_with_dropout_takes_the_path_that_a_cpu_takes(on):
    """A CPU has no fused kernel with dropout, so the twin of a model on a CPU may not take one either."""

    class Attention(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)

    profile = train(Attention(), torch.randn(2, 4, 16, 8, requires_grad=True), on)

    once = 2 * (2 * 4 * 16 * 16 * 8)
    assert (profile.macs, profile.backward.macs) == (once, MATH * once)


def test_a_model_that_is_on_meta_from_the_start_takes_the_fused_path_of_an_accelerator():
    with torch.device("meta"):
        model, x = Transformer(), tokens(device="meta")

    profile = train(model, x)

    assert profile["blocks.0"].own.backward.macs == FUSED * 2 * SCORES


@ON
@pytest.mark.parametrize("how", CHECKPOINTS)
def test_recompute_is_the_forward_of_what_was_dropped_and_backward_is_what_it_was(how, on):
    plain, profile = train(Transformer(), tokens(), on), train(Transformer(how), tokens(), on)

    for node in profile.walk():
        if node.path == "<outside>":
            continue
        was = plain[node.path]
        assert node.forward == was.forward
        assert node.backward.macs == was.backward.macs
        if node.path.startswith("blocks.") and how != "selective":
            assert node.recompute.flops == was.forward.flops
    assert profile["head"].recompute.flops == 0


@ON
def test_selective_recompute_runs_no_kept_product_again(on):
    profile = train(Transformer("selective"), tokens(), on)

    assert profile.recompute.macs == 0
    for i in range(LAYERS):
        # Norms, at five an element; GELU and the two sums of the residual stream at one.
        assert profile[f"blocks.{i}.norm_1"].recompute.flops == 5 * TOKENS * WIDTH
        assert profile[f"blocks.{i}"].own.recompute.flops == (4 + 2) * TOKENS * WIDTH
        assert profile[f"blocks.{i}"].recompute.flops == (5 + 5 + 4 + 2) * TOKENS * WIDTH


@ON
@pytest.mark.parametrize("layers", [1, 2])
def test_torch_s_own_encoder_layer_is_counted_with_its_backward(layers, on):
    batch, length, wide, heads, inner = 2, 6, 16, 4, 32
    layer = nn.TransformerEncoderLayer(wide, heads, inner, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    profile = train(model, torch.randn(batch, length, wide, requires_grad=True), on)

    places = batch * length
    attention = 2 * batch * length * length * wide
    products = places * (4 * wide * wide + 2 * wide * inner)
    assert profile.macs == layers * (products + attention)
    assert profile.backward.macs == layers * (2 * products + FUSED * attention)
    assert profile["layers.0.linear1"].backward.macs == 2 * places * wide * inner
