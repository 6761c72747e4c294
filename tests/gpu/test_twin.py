"""On a GPU, a meta twin counts what the device runs: the same kernels of attention, of recurrent layers, of dropout."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flopsight

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device; CPU twins are in tests/capture"
)


class Attends(nn.Module):
    """Heads of any width, with options for the op."""

    def __init__(self, width=64, heads=4, **options):
        super().__init__()
        self.heads, self.options = heads, options
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = (one.view(batch, length, self.heads, -1).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(*parts, **self.options)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def macs_by_module(profile):
    return {node.path: (node.own.forward.macs, node.own.backward.macs) for node in profile.walk()}


def ops(profile):
    return {(node.path, row.op, row.phase): row.calls for node in profile.walk() for row in node.ops}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("width", "options"),
    [
        (64, {}),
        (64, {"is_causal": True}),
        (64, {"dropout_p": 0.1}),
        (24, {}),
        (64, {"attn_mask": "square"}),
    ],
    ids=["plain", "causal", "dropout", "narrow heads", "mask"],
)
def test_attention_runs_the_same_ops(width, options, dtype):
    length = 20
    if "attn_mask" in options:
        options = {"attn_mask": torch.ones(length, length, device="cuda").tril().bool()}
    model = Attends(width, **options).cuda().to(dtype)
    x = torch.randn(2, length, width, device="cuda", dtype=dtype)

    real, meta = (flopsight.count(model, (x,), train=True, on=on) for on in ("real", "meta"))

    assert not meta.caveats
    assert ops(meta) == ops(real)
    assert macs_by_module(meta) == macs_by_module(real)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_cost_the_same(kind):
    model = kind(16, 32, num_layers=2, bidirectional=True).cuda()
    x = torch.randn(5, 3, 16, device="cuda")

    real, meta = (flopsight.count(model, (x,), train=True, on=on) for on in ("real", "meta"))

    assert not meta.caveats
    assert macs_by_module(meta) == macs_by_module(real)
    assert meta.flops == real.flops


def test_dropout_runs_the_same_op():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Linear(8, 8)).cuda()

    real, meta = (
        flopsight.count(model, (torch.randn(4, 8, device="cuda"),), train=True, on=on) for on in ("real", "meta")
    )

    assert ops(meta) == ops(real)
