"""Attention: against loops that compute it, against torch's unfused path op by op, and the causal figure beside it."""

from itertools import product

import numpy as np
import pytest
import torch
from formulas.calls import call, calls, cost, handmade, tensor, total
from formulas.naive import Tally
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from flopsight.formulas.attention import hidden_pairs

size = st.integers(1, 5)
few = settings(max_examples=20)
CPU_KERNEL = "aten._scaled_dot_product_flash_attention_for_cpu"


def tensors(batch, heads, shared, s_q, s_k, d, d_v):
    make = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    return make(batch, heads, s_q, d), make(batch, heads // shared, s_k, d), make(batch, heads // shared, s_k, d_v)


def loops(query, key, value, visible=None):
    tally = Tally()
    result = tally.attention(*(t.detach().numpy() for t in (query, key, value)), visible)
    return tally.products, result


@few
@given(size, size, size, size, size, size, st.integers(1, 2), st.booleans())
def test_attention_counts_every_scalar_product(batch, heads, s_q, s_k, d, d_v, shared, causal):
    """Also with several query heads to a key head; a causal mask hides scores after they were counted."""
    q, k, v = tensors(batch, heads * shared, shared, s_q, s_k, d, d_v)
    visible = np.tril(np.ones((s_q, s_k), dtype=bool)) if causal else None
    products, expected = loops(q, k, v, visible)
    with torch.inference_mode():
        result = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared > 1)
        made = call(
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared > 1),
            "aten.scaled_dot_product_attention",
        )

    assert np.allclose(result, expected)
    assert cost(made).macs == products
    hidden = (~visible).sum() if causal else 0
    assert cost(made).skipped_macs == (d + d_v) * batch * heads * shared * hidden


@few
@given(size, size, st.one_of(st.none(), st.integers(0, 6)), st.one_of(st.none(), st.integers(0, 6)), st.booleans())
def test_hidden_pairs_are_those_that_no_band_covers(s_q, s_k, left, right, from_the_end):
    shift = s_k - s_q if from_the_end else 0
    hidden = 0
    for i, j in product(range(s_q), range(s_k)):
        too_far_left = left is not None and j < i + shift - left
        too_far_right = right is not None and j > i + shift + right
        hidden += too_far_left or too_far_right

    assert hidden_pairs(s_q, s_k, left=left, right=right, shift=shift) == hidden


OPTIONS = {
    "plain": {},
    "a boolean mask": {"attn_mask": torch.ones(3, 5, dtype=torch.bool)},
    "a float mask": {"attn_mask": torch.zeros(3, 5, dtype=torch.float64)},
    "a causal mask": {"is_causal": True},
    "dropout": {"dropout_p": 0.5},
    "shared key heads": {"enable_gqa": True},
    "a mask and dropout": {"attn_mask": torch.zeros(2, 1, 3, 5, dtype=torch.float64), "dropout_p": 0.5},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_fused_attention_costs_what_the_unfused_path_runs(name):
    options = OPTIONS[name]
    q, k, v = tensors(2, 4, 2 if "enable_gqa" in options else 1, 3, 5, 8, 6)
    with sdpa_kernel(SDPBackend.MATH):
        unfused = total(calls(lambda: F.scaled_dot_product_attention(q, k, v, **options)))
    with torch.inference_mode():
        whole = call(lambda: F.scaled_dot_product_attention(q, k, v, **options), "aten.scaled_dot_product_attention")

    assert (cost(whole).macs, cost(whole).flops) == unfused


@pytest.mark.parametrize("name", ["plain", "a float mask", "a causal mask"])
def test_the_cpu_kernel_costs_what_the_unfused_path_runs(name):
    q, k, v = tensors(2, 4, 1, 3, 5, 8, 8)
    with sdpa_kernel(SDPBackend.MATH):
        unfused = total(calls(lambda: F.scaled_dot_product_attention(q, k, v, **OPTIONS[name])))

    fused = cost(call(lambda: F.scaled_dot_product_attention(q, k, v, **OPTIONS[name]), CPU_KERNEL))

    assert (fused.macs, fused.flops) == unfused


@pytest.mark.parametrize("name", OPTIONS)
def test_the_fused_backward_is_the_unfused_one_and_the_scores_anew(name):
    options = OPTIONS[name]
    shared = 2 if "enable_gqa" in options else 1
    q, k, v = tensors(2, 4, shared, 3, 5, 8, 8)
    with sdpa_kernel(SDPBackend.MATH):
        result = F.scaled_dot_product_attention(q, k, v, **options)
        macs, flops = total(calls(lambda: result.backward(torch.ones_like(result))))
    scores = 2 * 4 * 3 * 5

    made = handmade(
        f"{CPU_KERNEL}_backward", q.shape, k.shape, v.shape, grad_out=tensor((2, 4, 3, 8)), query=tensor(q.shape),
        key=tensor(k.shape), value=tensor(v.shape), out=tensor((2, 4, 3, 8)), logsumexp=tensor((2, 3, 4)),
        dropout_p=options.get("dropout_p", 0.0), is_causal=options.get("is_causal", False),
        attn_mask=tensor((3, 5)) if "attn_mask" in options else None,
    )  # fmt: skip

    assert cost(made).recompute_macs == scores * 8
    assert cost(made).macs == macs + scores * 8
    assert cost(made).flops == flops + 2 * scores * 8 + 5 * scores


@few
@given(size, size, size, size, size)
def test_the_backward_counts_every_scalar_product(batch, heads, s_q, s_k, d):
    """Scores again, then gradients of values, weights, queries and keys: five products, the forward has two."""
    q, k, v = tensors(batch, heads, 1, s_q, s_k, d, d)
    tally = Tally()
    for b, h in product(range(batch), range(heads)):
        query, key, value = (t[b, h].detach().numpy() for t in (q, k, v))
        grad = np.ones((s_q, d))
        scores = tally.matmul(query, key.T)
        tally.matmul(scores.T, grad)
        weights = tally.matmul(grad, value.T)
        tally.matmul(weights, key)
        tally.matmul(weights.T, query)
    result = F.scaled_dot_product_attention(q, k, v)

    made = cost(call(lambda: result.backward(torch.ones_like(result)), f"{CPU_KERNEL}_backward"))

    assert made.macs == tally.products
    assert 2 * made.macs == 5 * loops(q, k, v)[0]
    assert made.recompute_macs == batch * heads * s_q * s_k * d


def test_a_causal_kernel_skips_the_same_pairs_forward_and_backward():
    q, k, v = tensors(2, 3, 1, 4, 4, 8, 8)
    hidden = 2 * 3 * (3 + 2 + 1)
    result = F.scaled_dot_product_attention(q, k, v, is_causal=True)

    forward = cost(call(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), CPU_KERNEL))
    backward = cost(call(lambda: result.backward(torch.ones_like(result)), f"{CPU_KERNEL}_backward"))

    assert forward.skipped_macs == hidden * 16
    assert backward.skipped_macs == hidden * 40
    assert forward.causal_macs == 2 * 3 * 10 * 16


def test_bytes_are_queries_keys_values_output_and_mask():
    q, k, v = tensors(2, 4, 1, 3, 5, 8, 8)
    mask = torch.zeros(3, 5, dtype=torch.float64)

    made = cost(call(lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), CPU_KERNEL))

    assert made.bytes == 8 * (2 * 4 * 8 * (3 + 5 + 5 + 3) + 3 * 5)
