"""Attention on a twin takes the path that torch would take on the target, and costs the same."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import flopsight
from flopsight.capture.twin.attention_kernels import EFFICIENT, FLASH, MATH, attention_path

BATCH, HEADS, LENGTH, WIDTH = 2, 4, 24, 16


def tensor(*shape, **options):
    return torch.randn(shape, **options)


QUERY = tensor(BATCH, HEADS, LENGTH, WIDTH)
CASES = {
    "plain": (QUERY, QUERY, QUERY),
    "other keys": (QUERY, tensor(BATCH, HEADS, 40, WIDTH), tensor(BATCH, HEADS, 40, WIDTH)),
    "three dimensions": (QUERY[0], QUERY[0], QUERY[0]),
    "one head of keys": (QUERY, QUERY[:, :1], QUERY[:, :1]),
    "wider values": (QUERY, QUERY, tensor(BATCH, HEADS, LENGTH, 32)),
    "broadcast batch": (QUERY, QUERY[:1], QUERY[:1]),
    "transposed": (QUERY.transpose(2, 3), QUERY.transpose(2, 3), QUERY.transpose(2, 3)),
    "expanded width": (QUERY, QUERY[..., :1].expand(-1, -1, -1, WIDTH), QUERY),
    "no tokens": (QUERY[:, :, :0], QUERY, QUERY),
    "double": (QUERY.double(),) * 3,
    "half": (QUERY.bfloat16(),) * 3,
    "one channel": (QUERY[..., :1],) * 3,
}
MASKS = {
    "none": None,
    "two dimensions": torch.ones(LENGTH, LENGTH).bool(),
    "for each sample": torch.ones(BATCH, 1, 1, LENGTH).bool(),
    "for each head": torch.zeros(BATCH, HEADS, LENGTH, LENGTH),
    "three dimensions": torch.zeros(HEADS, LENGTH, LENGTH),
    "learned": torch.zeros(LENGTH, LENGTH, requires_grad=True),
}


def on_meta(value):
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta").requires_grad_(
        value.requires_grad
    )


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("case", CASES)
def test_the_path_is_the_one_that_torch_chooses_for_real_tensors(case, mask, dropout):
    tensors, mask = CASES[case], MASKS[mask]
    wanted = torch._fused_sdp_choice(*tensors, mask, dropout, False)

    meta = [on_meta(one) for one in tensors]
    found = attention_path("cpu", *meta, None if mask is None else on_meta(mask), dropout, causal=False, gqa=False)

    assert found == wanted


def test_large_tensors_are_asked_for_by_small_ones():
    shape = (512, 96, 100_000, 128)
    huge = [torch.empty(shape, device="meta", dtype=torch.bfloat16) for _ in range(3)]

    assert attention_path("cpu", *huge, None, 0.0, causal=True, gqa=False) == FLASH


def test_grouped_queries_go_where_torch_sends_them():
    few = tensor(BATCH, HEADS // 2, LENGTH, WIDTH)
    wanted = torch._fused_sdp_choice(QUERY, few, few, None, 0.0, False, enable_gqa=True)

    meta = [on_meta(one) for one in (QUERY, few, few)]

    assert attention_path("cpu", *meta, None, 0.0, causal=False, gqa=True) == wanted


def test_the_users_choice_of_kernels_holds():
    meta = [on_meta(QUERY)] * 3

    with sdpa_kernel(SDPBackend.MATH):
        assert attention_path("cpu", *meta, None, 0.0, causal=False, gqa=False) == MATH


def test_a_model_on_meta_runs_as_on_some_accelerator():
    half, single = on_meta(QUERY.bfloat16()), on_meta(QUERY)

    assert attention_path("meta", half, half, half, None, 0.0, causal=True, gqa=False) == FLASH
    assert attention_path("meta", single, single, single, None, 0.0, causal=True, gqa=False) == EFFICIENT


class Attends(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.options = options

    def forward(self, x):
        x = self.projection(x)
        return F.scaled_dot_product_attention(x, x, x, **self.options)


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"dropout_p": 0.1}, {"attn_mask": torch.ones(LENGTH, LENGTH).tril().bool()}],
    ids=["plain", "causal", "dropout", "mask"],
)
def test_ops_flops_and_bytes_are_those_of_real_attention(options):
    model = Attends(**options)

    real, meta = (flopsight.count(model, (QUERY,), train=True, on=on) for on in ("real", "meta"))

    assert [(row.op, row.phase, row.calls, row.cost) for row in meta.root.ops] == [
        (row.op, row.phase, row.calls, row.cost) for row in real.root.ops
    ]


def test_attention_inside_a_layer_of_torchs_own_is_the_targets_too():
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    class Once(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = layer

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    profile = flopsight.count(Once(), (tensor(2, 8, WIDTH),), train=True, on="meta")

    ops = {row.op for node in profile.walk() for row in node.ops}
    assert "aten._scaled_dot_product_flash_attention_for_cpu_backward" in ops


def test_afterwards_attention_on_meta_is_torchs_again():
    meta = on_meta(QUERY)

    flopsight.count(Attends(), (QUERY,), on="meta")

    with flopsight.recording() as recording:
        meta.requires_grad_()
        F.scaled_dot_product_attention(meta, meta, meta)
    assert "aten._scaled_dot_product_flash_attention_for_cpu" not in {
        row.op for node in recording.profile.walk() for row in node.ops
    }
