"""Published MFU figures from our own counts of the models, built on meta from their configuration."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import flopsight
from flopsight.analysis.limits.utilization import flops_per_token, hfu, mfu, model_flops
from flopsight.results.timings import Stat, Timing

CASES = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "data/published.json").read_text())["mfu_cases"]
}
MPT = [name for name in CASES if name.startswith("MPT")]
MPT_VOCAB = 50368


class Block(nn.Module):
    """Attention and a feed-forward of four times the width, both with biases, after norms with biases: 12 d^2 + 13 d."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, seq, width = x.shape
        heads = (
            part.view(batch, seq, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm_1(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(batch, seq, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Decoder(nn.Module):
    """GPT-2's architecture, which nanoGPT and MPT share: learned positions, and a head tied to the embedding."""

    def __init__(self, *, layers, width, seq, vocab, heads, checkpointed=False):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocab, width), nn.Embedding(seq, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.words.weight
        self.checkpointed = checkpointed

    def forward(self, ids):
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), ids.flatten())


def counted(batch, seq, **config):
    """A training step in bfloat16, counted without a kernel."""
    with torch.device("meta"):
        model = Decoder(seq=seq, **config).bfloat16()
        ids = torch.zeros(batch, seq, dtype=torch.long)
    return flopsight.count(model, (ids,), train=True, on="meta")


def timed(profile, seconds, peak):
    return replace(profile, timing=Timing(iteration=Stat((seconds,))), peak_flops={"bfloat16": peak})


def test_nanogpts_mfu_comes_out_of_our_count():
    case = CASES["nanoGPT 124M A100 MFU"]
    config = case["config"]

    counts = counted(config["batch"], config["seq"], layers=12, width=768, vocab=50257, heads=12)

    assert model_flops(counts) == 874_944_921_600 * config["batch"]
    profile = timed(counts, config["t"], config["peak"])
    assert 100 * profile.mfu == pytest.approx(case["published"], abs=case["abs_tol"])


@pytest.mark.parametrize("name", MPT)
def test_mpts_mfu_comes_out_of_our_count_once_idle_parameters_are_charged(name):
    """The published 6N charges positions, biases and norms as if they were matrices; we count what multiplies."""
    case = CASES[name]
    config = case["config"]
    layers, width, seq = config["L"], config["d"], config["seq"]

    counts = counted(1, seq, layers=layers, width=width, vocab=MPT_VOCAB, heads=width // 128)

    matrices = 12 * layers * width**2 + MPT_VOCAB * width
    assert counts.params == config["N"]
    assert flops_per_token(counts) == 6 * matrices + 12 * layers * width * seq
    profile = timed(counts, seq / config["tok_s_gpu"], config["peak"])
    charged = 6 * (config["N"] - matrices) * config["tok_s_gpu"] / config["peak"]
    assert 100 * (profile.mfu + charged) == pytest.approx(case["published"], abs=case["abs_tol"])


@pytest.mark.parametrize("checkpointed", [False, True])
def test_hfu_adds_the_recompute_of_checkpoints_and_of_fused_attention(checkpointed):
    batch, seq, layers, width, vocab = 2, 256, 3, 128, 1000
    blocks = batch * seq * 12 * layers * width**2
    scores = layers * batch * seq**2 * width

    counts = counted(batch, seq, layers=layers, width=width, vocab=vocab, heads=2, checkpointed=checkpointed)

    profile = timed(counts, 1.0, 1e12)
    rerun = blocks * 8 // 12  # torch stops a recompute before the block's last product, whose result nobody saved
    again = scores + (rerun + 2 * scores if checkpointed else 0)
    assert mfu(profile) * 1e12 == pytest.approx(6 * (blocks + batch * seq * vocab * width + 2 * scores), rel=1e-12)
    assert (hfu(profile) - mfu(profile)) * 1e12 == pytest.approx(2 * again, rel=1e-9)
