"""Cases that other counters get wrong, each with its answer by arithmetic."""

import pytest
import torch
from formulas.calls import calls, total
from torch import nn
from torch.nn import functional as F


def macs(run):
    return total(made for made in calls(run) if "rand" not in made.op)[0]


def flops(run):
    return total(made for made in calls(run) if "rand" not in made.op)[1]


def test_vectors_matrices_and_broadcasting():
    assert macs(lambda: torch.randn(8) @ torch.randn(8)) == 8
    assert macs(lambda: torch.randn(4, 8) @ torch.randn(8)) == 32
    assert macs(lambda: torch.randn(3, 1, 4, 8) @ torch.randn(2, 8, 5)) == 3 * 2 * 4 * 8 * 5 == 960


def test_a_complex_product_is_four_real_ones():
    a, b = torch.randn(4, 8, dtype=torch.complex64), torch.randn(8, 5, dtype=torch.complex64)

    assert macs(lambda: a @ b) == 4 * 160 == 640


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "bij,bjk->ikb", "bij,bjk->ik"])
def test_einsum_counts_its_products(equation):
    a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)

    assert macs(lambda: torch.einsum(equation, a, b)) == 2 * 3 * 4 * 5


def test_operators_count_like_functions():
    x, w = torch.randn(4, 8), torch.randn(4, 8)

    assert flops(lambda: x * w + x) == flops(lambda: torch.add(torch.mul(x, w), x)) == 64


def test_a_linear_layer_on_three_dimensions():
    assert macs(lambda: F.linear(torch.randn(2, 3, 8), torch.randn(5, 8))) == 2 * 3 * 8 * 5


def test_a_transposed_convolution_counts_input_pixels():
    """4 pixels, 3 channels, each spread over 5 channels of a 2x2 kernel; its output has 4 times as many pixels."""
    layer = nn.ConvTranspose2d(3, 5, 2, stride=2, bias=False)

    assert macs(lambda: layer(torch.randn(1, 3, 2, 2))) == 4 * 3 * 5 * 4


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_a_train_step_of_a_grouped_convolution_is_three_forwards(groups):
    layer = nn.Conv2d(8, 8, 3, padding=1, groups=groups, bias=False)
    x = torch.randn(2, 8, 6, 6, requires_grad=True)
    forward = 2 * 8 * 36 * (8 // groups) * 9

    assert macs(lambda: layer(x)) == forward
    assert macs(lambda: layer(x).sum().backward()) == 3 * forward


@pytest.mark.parametrize("shared", [1, 4])
def test_attention_on_the_cpu_is_counted(shared):
    q, k = torch.randn(2, 8, 16, 32), torch.randn(2, 8 // shared, 16, 32)

    assert macs(lambda: F.scaled_dot_product_attention(q, k, k, enable_gqa=shared > 1)) == 2 * 2 * 8 * 16 * 16 * 32


def test_an_lstm_is_counted():
    net = nn.LSTM(3, 5, 2)

    assert macs(lambda: net(torch.randn(7, 2, 3))) == 7 * 2 * 20 * ((3 + 5) + (5 + 5))


def test_inference_mode_does_not_change_a_count():
    """There linear layers, attention, norms and activations arrive whole."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)  # training: the layer's own fast path is off
    layer.dropout.p = layer.dropout1.p = layer.dropout2.p = layer.self_attn.dropout = 0.0
    x = torch.randn(2, 5, 16)
    per_token = 16 * 48 + 16 * 16 + 2 * 16 * 32
    plain = total(calls(lambda: layer(x)))

    with torch.inference_mode():
        inferred = total(made for made in calls(lambda: layer(x)) if made.op != "aten.dropout")

    assert plain[0] == 2 * 5 * per_token + 2 * 2 * 5 * 5 * 16
    assert inferred == plain
