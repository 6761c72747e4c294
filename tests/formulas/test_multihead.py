"""nn.MultiheadAttention costs the same fused and unfused, on meta and on real tensors."""

import pytest
import torch
from torch import nn

import flopsight

BATCH, LENGTH, WIDTH, HEADS = 2, 10, 32, 4
TOKENS, SCORES = BATCH * LENGTH, BATCH * HEADS * LENGTH**2
MACS = TOKENS * WIDTH * 4 * WIDTH + 2 * SCORES * (WIDTH // HEADS)
"""Four projections as wide as the model, and two products over every score."""
BIASES = 4 * TOKENS * WIDTH
SOFTMAX = 5 * SCORES


@pytest.fixture(params=[True, False], ids=["fused", "unfused"])
def fused(request):
    torch.backends.mha.set_fastpath_enabled(request.param)
    yield request.param
    torch.backends.mha.set_fastpath_enabled(True)


def count(on="real", **options):
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    batch = torch.ones(BATCH, LENGTH, WIDTH)
    with torch.no_grad():
        return flopsight.count(attention, (batch, batch, batch), options, on=on)


def padding():
    mask = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    mask[1, 7:] = True
    return mask


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize("masked", [False, True], ids=["plain", "padded"])
@pytest.mark.parametrize("weights", [False, True], ids=["result", "weights"])
def test_fused_or_not_on_meta_or_not_it_costs_the_same(fused, weights, masked, on):
    profile = count(on, need_weights=weights, key_padding_mask=padding() if masked else None)

    scaled = TOKENS * WIDTH * (1 if weights else 2)  # queries; keys too where torch's attention op does it
    averaged = SCORES if weights else 0
    assert profile.macs == MACS
    assert profile.flops == 2 * MACS + BIASES + SOFTMAX + scaled + averaged + (SCORES if masked else 0)
    assert profile.coverage.complete


def test_on_meta_the_fused_op_is_the_fused_op():
    real, meta = (count(on, need_weights=False) for on in ("real", "meta"))

    assert [row.op for row in meta.root.ops] == [row.op for row in real.root.ops]
    assert meta.root.total.total.bytes == real.root.total.total.bytes
    assert not meta.caveats


def test_an_encoder_of_sequences_of_several_lengths_skips_the_padding_in_its_projections():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()

    with torch.no_grad():
        profile = flopsight.count(encoder, (torch.ones(BATCH, LENGTH, WIDTH),), {"src_key_padding_mask": padding()})

    tokens = 10 + 7
    layer_macs = tokens * WIDTH * (4 * WIDTH + 2 * 2 * WIDTH) + 2 * SCORES * (WIDTH // HEADS)
    assert profile.macs == 2 * layer_macs
