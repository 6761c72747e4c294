"""Attention that torch fuses in inference: the twin fuses it too, and fused costs what unfused costs."""

import pytest
import torch
from torch import nn

import flopsight

BATCH, LENGTH, WIDTH, HEADS, INNER = 3, 5, 8, 2, 16
TOKENS = BATCH * LENGTH
PADDING = torch.tensor([[False] * (LENGTH - 1) + [True]] * BATCH)
ATTENTION = 4 * TOKENS * WIDTH * WIDTH + 2 * BATCH * LENGTH * LENGTH * WIDTH
SCORES = BATCH * HEADS * LENGTH * LENGTH


class SelfAttention(nn.MultiheadAttention):
    def forward(self, x, padding=None):
        return super().forward(x, x, x, key_padding_mask=padding, need_weights=False)[0]


def fused(model, *args, on):
    """What a model costs in inference, where its attention is one op."""
    with torch.no_grad():
        run = flopsight.count if on == "meta" else flopsight.profile
        options = {"on": "meta"} if on == "meta" else {"latency": False}
        return run(model.eval(), args, **options)


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize("padded", [False, True])
def test_fused_attention_costs_its_products_biases_scalings_softmax_and_mask(padded, on):
    x = torch.randn(BATCH, LENGTH, WIDTH)

    profile = fused(SelfAttention(WIDTH, HEADS, batch_first=True), x, *([PADDING] if padded else []), on=on)

    biases, scaling = 4 * TOKENS * WIDTH, 2 * TOKENS * WIDTH
    assert profile.macs == ATTENTION
    assert profile.flops == 2 * ATTENTION + biases + scaling + (5 + padded) * SCORES
    assert not profile.caveats


@pytest.mark.parametrize("padded", [False, True])
def test_an_encoder_layer_costs_the_same_fused_and_unfused_real_and_on_meta(padded):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, batch_first=True).eval()
    x, kwargs = torch.randn(BATCH, LENGTH, WIDTH), {"src_key_padding_mask": PADDING} if padded else {}

    unfused = flopsight.count(layer, (x,), kwargs)
    with torch.no_grad():
        real = flopsight.profile(layer, (x,), kwargs, latency=False)
        meta = flopsight.count(layer, (x,), kwargs, on="meta")

    assert unfused.macs == real.macs == meta.macs == ATTENTION + 2 * TOKENS * WIDTH * INNER
    assert unfused.flops == real.flops == meta.flops
    assert (real.forward.bytes, real.peak_bytes) == (meta.forward.bytes, meta.peak_bytes)
    assert not meta.caveats


def test_attention_over_tensors_with_functions_of_their_own_is_not_fused_on_meta_either():
    class Own(torch.Tensor):
        pass

    layer, x = SelfAttention(WIDTH, HEADS, batch_first=True), torch.randn(BATCH, LENGTH, WIDTH)

    real, meta = (fused(layer, x.as_subclass(Own), on=on) for on in ("real", "meta"))

    assert real.flops == meta.flops
