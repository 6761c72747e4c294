"""Attention kernels of devices, packed sequences and blocks, from handmade records that torch's schemas vouch for."""

from itertools import product

import pytest
import torch
from formulas.calls import call, cost, handmade, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from releases import load_varlen

from flopsight.formulas import price
from flopsight.results.records import OpRecord

load_varlen()
few = settings(max_examples=20)

B, H, KV, S, D = 2, 8, 2, 16, 32
Q, K, ROWS = (B, H, S, D), (B, KV, S, D), (B, H, S)
PAIRS = B * H * S * S
HIDDEN = B * H * S * (S - 1) // 2
FORWARD = {"query": Q, "key": K, "value": K, "is_causal": True}
SAVED = {"out": Q, "logsumexp": ROWS}
SEQUENCES = {"cum_seq_q": None, "cum_seq_k": None, "max_q": S, "max_k": S}
SEEDS = {"philox_seed": (), "philox_offset": ()}


@pytest.mark.parametrize(
    "made",
    [
        handmade("aten._scaled_dot_product_flash_attention", Q, ROWS, **FORWARD),
        handmade("aten._scaled_dot_product_efficient_attention", Q, ROWS, **FORWARD, attn_bias=None,
                 compute_log_sumexp=True),
        handmade("aten._scaled_dot_product_cudnn_attention", Q, ROWS, **FORWARD, attn_bias=None, compute_log_sumexp=True),
        handmade("aten._scaled_dot_product_fused_attention_overrideable", Q, ROWS, **FORWARD),
    ],
)  # fmt: skip
def test_device_kernels_with_shared_key_heads(made):
    assert cost(made).macs == PAIRS * 2 * D
    assert cost(made).flops == 2 * PAIRS * 2 * D + (5 + 1) * PAIRS + 2 * B * H * S * D
    assert cost(made).skipped_macs == HIDDEN * 2 * D
    assert cost(made).bytes == 4 * 2 * B * (H + KV) * S * D


@pytest.mark.parametrize(
    "made",
    [
        handmade("aten._scaled_dot_product_flash_attention_backward", Q, K, K, **FORWARD, grad_out=Q, **SAVED,
                 **SEQUENCES, dropout_p=0.0, **SEEDS),
        handmade("aten._scaled_dot_product_efficient_attention_backward", Q, K, K, **FORWARD, grad_out_=Q,
                 attn_bias=None, **SAVED, **SEEDS, dropout_p=0.0, grad_input_mask=(True, True, True, False)),
        handmade("aten._scaled_dot_product_cudnn_attention_backward", Q, K, K, **FORWARD, grad_out=Q, **SAVED, **SEEDS,
                 attn_bias=None, **SEQUENCES, dropout_p=0.0),
        handmade("aten._scaled_dot_product_fused_attention_overrideable_backward", Q, K, K, **FORWARD, grad_out=Q,
                 attn_bias=None, grad_input_mask=(True, True, True, False), **SAVED, **SEQUENCES, dropout_p=0.0, **SEEDS),
    ],
)  # fmt: skip
def test_device_backwards_with_shared_key_heads(made):
    assert cost(made).macs == PAIRS * 5 * D
    assert cost(made).recompute_macs == PAIRS * D
    assert cost(made).skipped_macs == HIDDEN * 5 * D
    assert cost(made).flops == 2 * PAIRS * 5 * D + 9 * PAIRS + 2 * B * H * S * D + 2 * B * H * S * D


@st.composite
def packed_sequences(draw):
    return [(draw(st.integers(0, 5)), draw(st.integers(1, 5))) for _ in range(draw(st.integers(1, 4)))]


@few
@given(packed_sequences(), st.booleans(), st.one_of(st.none(), st.integers(0, 3)))
def test_packed_sequences_attend_only_within_themselves(lengths, causal, window):
    """The flash kernel lines a causal mask up with the last query and the last key."""
    heads, d = 3, 4
    rows, keys = sum(q for q, _ in lengths), sum(k for _, k in lengths)
    products = hidden = 0
    for s_q, s_k in lengths:
        for i, j in product(range(s_q), range(s_k)):
            products += heads * 2 * d
            place = i + s_k - s_q
            if (causal and j > place) or (window is not None and j < place - window):
                hidden += heads * 2 * d

    made = handmade(
        "aten._flash_attention_forward", (rows, heads, d), query=(rows, heads, d), key=(keys, 1, d), value=(keys, 1, d),
        cum_seq_q=(len(lengths) + 1,), cum_seq_k=(len(lengths) + 1,), max_q=5, max_k=5, dropout_p=0.0, is_causal=causal,
        return_debug_mask=False, window_size_left=window,
        facts={"lengths_q": tuple(q for q, _ in lengths), "lengths_k": tuple(k for _, k in lengths)},
    )  # fmt: skip

    assert cost(made).macs == products
    assert cost(made).skipped_macs == hidden


@pytest.mark.parametrize(("mask_type", "hidden"), [(0, 0), (1, 4 + 3 + 2), (2, 2 + 1 + 0)])
def test_the_efficient_kernel_knows_two_causal_masks(mask_type, hidden):
    """3 queries and 5 keys: a mask from the top left hides 4, 3 and 2 keys, one to the bottom right 2, 1 and 0."""
    made = handmade(
        "aten._efficient_attention_forward", (2, 3, 4, 8), query=(2, 3, 4, 8), key=(2, 5, 4, 8), value=(2, 5, 4, 8),
        bias=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=3, max_seqlen_k=5, dropout_p=0.0,
        custom_mask_type=mask_type,
    )  # fmt: skip

    assert cost(made).macs == 2 * 4 * 3 * 5 * 16
    assert cost(made).skipped_macs == 2 * 4 * hidden * 16


def test_low_level_backwards_count_like_the_others():
    rows = {"query": (7, 2, 4), "key": (9, 2, 4), "value": (9, 2, 4), "out": (7, 2, 4), "logsumexp": (2, 7)}
    facts = {"lengths_q": (3, 4), "lengths_k": (4, 5)}
    pairs = 2 * (3 * 4 + 4 * 5)
    flash = handmade("aten._flash_attention_backward", (7, 2, 4), **rows, grad_out=(7, 2, 4), cum_seq_q=(3,),
                     cum_seq_k=(3,), max_q=4, max_k=5, dropout_p=0.0, is_causal=False, rng_state=(2,), unused=(),
                     facts=facts)  # fmt: skip
    batched = {name: (1, *shape) for name, shape in rows.items()}
    efficient = handmade("aten._efficient_attention_backward", (1, 7, 2, 4), **batched, grad_out_=(1, 7, 2, 4), bias=None,
                         cu_seqlens_q=(3,), cu_seqlens_k=(3,), max_seqlen_q=4, max_seqlen_k=5, dropout_p=0.0,
                         philox_seed=(), philox_offset=(), custom_mask_type=0, bias_requires_grad=False,
                         facts=facts)  # fmt: skip

    assert cost(flash).macs == cost(efficient).macs == pairs * 5 * 4
    assert cost(flash).recompute_macs == pairs * 4


def test_packed_sequences_of_unknown_lengths_are_not_guessed():
    made = handmade("aten._flash_attention_forward", (7, 2, 4), query=(7, 2, 4), key=(7, 2, 4), value=(7, 2, 4),
                    cum_seq_q=(3,), cum_seq_k=(3,), max_q=4, max_k=4, dropout_p=0.0, is_causal=False,
                    return_debug_mask=False)  # fmt: skip

    assert price(made).status == "unknown"
    assert "lengths of the packed sequences" in price(made).why


def test_torch_varlen_attention_counts_its_windows():
    made = handmade("torch_attn._varlen_attn", (6, 2, 4), query=(6, 2, 4), key=(6, 2, 4), value=(6, 2, 4), cu_seq_q=(3,),
                    cu_seq_k=(3,), max_q=4, max_k=4, is_causal=True, window_size=(-1, 0),
                    facts={"lengths_q": (2, 4), "lengths_k": (2, 4)})  # fmt: skip

    assert cost(made).macs == 2 * (4 + 16) * 8
    assert cost(made).skipped_macs == 2 * (1 + 6) * 8


def test_flex_attention_is_dense_and_names_what_its_blocks_skip():
    args = {name: tensor((2, 4, 256, 64)) for name in ("query", "key", "value")}
    pairs = 2 * 4 * 256 * 256
    forward = OpRecord(
        "higher_order.flex_attention", args=args, outputs=(tensor((2, 4, 256, 64)),), facts={"density": 0.75}
    )
    backward = OpRecord("higher_order.flex_attention_backward", args=args, outputs=(tensor((2, 4, 256, 64)),) * 3,
                        facts={"density": 0.75})  # fmt: skip

    assert cost(forward).macs == pairs * 128
    assert cost(forward).skipped_macs == pairs * 128 // 4
    assert cost(backward).macs == pairs * 5 * 64
    assert cost(backward).skipped_macs == pairs * 5 * 64 // 4
    assert cost(backward).recompute_macs == pairs * 64


def test_the_fused_bias_and_scaling_of_an_encoder_layer():
    made = call(
        lambda: torch._transform_bias_rescale_qkv(torch.randn(2, 3, 24), torch.randn(24), 4),
        "aten._transform_bias_rescale_qkv",
    )

    bias, scaling_of_queries, scaling_of_keys = 2 * 3 * 24, 2 * 3 * 8, 2 * 3 * 8
    assert cost(made).flops == bias + scaling_of_queries + scaling_of_keys
