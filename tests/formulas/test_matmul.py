"""Matrix products: every formula against a count of scalar products, made by loops that compute the same result."""

import numpy as np
import pytest
import torch
from formulas.calls import call, calls, cost, handmade, inside, live, record, tensor, total
from formulas.naive import Tally
from hypothesis import given, settings
from hypothesis import strategies as st
from releases import since

size = st.integers(1, 4)
few = settings(max_examples=25)


def normal(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype)


def batch_products(tally, a, b):
    return np.stack([tally.matmul(x, y) for x, y in zip(a.numpy(), b.numpy(), strict=True)])


@few
@given(size, size, size)
def test_mm_counts_every_scalar_product(m, k, n):
    a, b, tally = normal(m, k), normal(k, n), Tally()

    expected = tally.matmul(a.numpy(), b.numpy())

    assert np.allclose(torch.mm(a, b), expected)
    assert cost(call(lambda: torch.mm(a, b), "aten.mm")).macs == tally.products


@few
@given(size, size, size, size)
def test_batches_count_every_scalar_product(b, m, k, n):
    x, y, z, tally = normal(b, m, k), normal(b, k, n), normal(b, m, n), Tally()

    expected = batch_products(tally, x, y)

    assert np.allclose(torch.bmm(x, y), expected)
    assert cost(call(lambda: torch.bmm(x, y), "aten.bmm")).macs == tally.products
    assert cost(call(lambda: torch.baddbmm(z, x, y), "aten.baddbmm")).macs == tally.products
    assert cost(call(lambda: torch.addbmm(z[0], x, y), "aten.addbmm")).macs == tally.products


@few
@given(size, size)
def test_vectors_count_every_scalar_product(m, k):
    a, v, w, tally = normal(m, k), normal(k), normal(m), Tally()

    tally.matmul(a.numpy(), v.numpy()[:, None])

    assert cost(call(lambda: torch.mv(a, v), "aten.mv")).macs == tally.products
    assert cost(call(lambda: torch.addmv(w, a, v), "aten.addmv")).macs == tally.products
    assert cost(call(lambda: torch.dot(v, v), "aten.dot")).macs == k
    assert cost(call(lambda: torch.vdot(v, v), "aten.vdot")).macs == k


@few
@given(st.lists(size, max_size=2), st.lists(size, max_size=2), size, size, size, st.booleans(), st.booleans())
def test_a_broadcast_matmul_counts_every_scalar_product(lead_a, lead_b, m, k, n, vector_a, vector_b):
    """Leading dimensions of one side that are 1 or missing are repeated, and their products are done again."""
    longest = max(len(lead_a), len(lead_b))
    lead = ([1] * (longest - len(lead_b)) + lead_b)[longest - len(lead_a) :] if lead_a else []
    shape_a = [k] if vector_a else [*(s if i % 2 else 1 for i, s in enumerate(lead)), m, k]
    shape_b = [k] if vector_b else [*lead_b, k, n]
    a, b = normal(*shape_a), normal(*shape_b)
    with torch.inference_mode():
        made = call(lambda: torch.matmul(a, b), "aten.matmul")
    out = a @ b

    tally = Tally()
    rows = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = np.broadcast_to(a.numpy().reshape(*a.shape[:-2], -1, k), (*rows, 1 if vector_a else m, k))
    right = b.numpy()[:, None] if vector_b else b.numpy()
    right = np.broadcast_to(right, (*rows, k, right.shape[-1]))
    expected = np.array([tally.matmul(left[at], right[at]) for at in np.ndindex(*rows)]).reshape(out.shape)

    assert np.allclose(out, expected)
    assert cost(made).macs == tally.products
    assert sum(cost(part).macs for part in calls(lambda: a @ b)) == tally.products


@few
@given(size, size, size)
def test_adding_costs_one_flop_an_output_element_unless_beta_is_zero(m, k, n):
    a, b, c = normal(m, k), normal(k, n), normal(m, n)

    summed = cost(call(lambda: torch.addmm(c, a, b), "aten.addmm"))
    plain = cost(call(lambda: torch.addmm(c, a, b, beta=0), "aten.addmm"))
    in_place = cost(call(lambda: c.addmm_(a, b), "aten.addmm_"))

    assert summed.macs == plain.macs == in_place.macs == m * k * n
    assert summed.flops == in_place.flops == 2 * m * k * n + m * n
    assert plain.flops == 2 * m * k * n


def test_a_fused_activation_is_one_more_flop_an_element():
    a, b, bias = normal(3, 4), normal(4, 5), normal(5)

    made = cost(call(lambda: torch._addmm_activation(bias, a, b, use_gelu=True), "aten._addmm_activation"))

    assert made.flops == 2 * 3 * 4 * 5 + 3 * 5 + 3 * 5


def test_an_outer_product_is_pointwise():
    v, w, c = normal(3), normal(5), normal(3, 5)

    outer = calls(lambda: torch.outer(v, w))
    addr = cost(call(lambda: torch.addr(c, v, w), "aten.addr"))

    assert sum(cost(made).flops for made in outer) == 15
    assert (addr.macs, addr.flops) == (0, 30)


@few
@given(st.lists(size, max_size=3), size, size, st.booleans())
def test_a_linear_layer_and_its_backward(lead, k, n, bias):
    x, weight = normal(*lead, k), normal(n, k)
    b = normal(n) if bias else None
    rows = int(np.prod(lead))
    with torch.inference_mode():
        made = cost(call(lambda: torch.nn.functional.linear(x, weight, b), "aten.linear"))

    tally = Tally()
    tally.matmul(x.numpy().reshape(-1, k), weight.numpy().T)

    assert made.macs == tally.products
    assert made.flops == 2 * tally.products + bias * rows * n


@given(st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_linear_backward_counts_only_the_gradients_asked_for(mask):
    made = handmade("aten.linear_backward", (6, 5), self=(6, 5), grad_output=(6, 7), weight=(7, 5), output_mask=mask)

    assert cost(made).macs == 6 * 7 * 5 * (mask[0] + mask[1])
    assert cost(made).flops == 2 * cost(made).macs + 42 * mask[2]


@pytest.mark.parametrize(
    ("made", "macs"),
    [
        (handmade("aten.mkldnn_linear", (6, 7), self=(6, 5), weight=(7, 5)), 210),
        (
            handmade("aten.mkldnn_linear_backward", (6, 5), self=(6, 5), grad_output=(6, 7), weight=(7, 5),
                     output_mask=(True, True, False)),
            420,
        ),
        (handmade("aten.mkldnn_linear_backward_input", (6, 5), input_size=(6, 5), grad_output=(6, 7), weight=(7, 5)), 210),
        (
            handmade("aten.mkldnn_linear_backward_weights", (7, 5), grad_output=(6, 7), input=(6, 5), weight=(7, 5),
                     bias_defined=True),
            210,
        ),
        (handmade("aten.matmul_backward", (2, 3), grad=(2, 4), self=(2, 3), other=(3, 4), mask=(True, True)), 48),
        (handmade("inductor._mm_plus_mm", (2, 4), a=(2, 3), b=(3, 4), c=(2, 5), d=(5, 4), out=(2, 4)), 24 + 40),
        (
            handmade("mkldnn._linear_pointwise", (6, 7), X=(6, 5), W=(7, 5), B=(7,), attr="relu", scalars=(),
                     algorithm=None),
            210,
        ),
    ],
)  # fmt: skip
def test_linear_kernels_of_other_backends(made, macs):
    assert cost(made).macs == macs


@few
@given(size, size, size, size)
def test_complex_products_are_four_real_ones(b, m, k, n):
    x, y = normal(b, m, k, dtype=torch.complex128), normal(b, k, n, dtype=torch.complex128)

    made = cost(call(lambda: torch.bmm(x, y), "aten.bmm"))

    assert made.macs == 4 * b * m * k * n
    assert made.flops == 2 * made.macs


@few
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), size, size, st.integers(0, 3))
def test_ragged_groups_count_every_scalar_product(rows, k, n, padding):
    """Rows split among experts: [rows, k] times [experts, k, n]; rows behind the last group are not computed."""
    x, weight, tally = normal(sum(rows) + padding, k), normal(len(rows), k, n), Tally()
    start = 0
    for expert, count in enumerate(rows):
        tally.matmul(x[start : start + count].numpy(), weight[expert].numpy())
        start += count

    made = handmade("aten._grouped_mm", (len(x), n), self=tuple(x.shape), mat2=tuple(weight.shape), offs=(len(rows),),
                    facts={"lengths": tuple(rows)})  # fmt: skip

    assert cost(made).macs == tally.products


@few
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), size, size)
def test_ragged_inner_and_outer_dimensions(lengths, m, n):
    whole, groups, tally, other = sum(lengths), len(lengths), Tally(), Tally()
    a, b = np.ones((m, whole)), np.ones((whole, n))
    start = 0
    for length in lengths:
        tally.matmul(a[:, start : start + length], b[start : start + length])
        other.matmul(np.ones((m, n)), np.ones((n, length)))
        start += length

    inner = handmade("aten._grouped_mm", (groups, m, n), self=(m, whole), mat2=(whole, n), offs=(groups,))
    outer = handmade("aten._grouped_mm", (m, whole), self=(groups, m, n), mat2=(n, whole), offs=(groups,))

    assert cost(inner).macs == tally.products
    assert cost(outer).macs == other.products


def test_equal_groups_are_a_batch():
    made = handmade("aten._grouped_mm", (3, 4, 6), self=(3, 4, 5), mat2=(3, 5, 6))

    assert cost(made).macs == 3 * 4 * 5 * 6


@since((2, 9), "grouped product on a CPU")
def test_a_real_grouped_mm_binds_the_same_names():
    x, weight = torch.randn(6, 16, dtype=torch.bfloat16), torch.randn(2, 16, 8, dtype=torch.bfloat16)
    ends = torch.tensor([2, 6], dtype=torch.int32)

    assert cost(call(lambda: torch._grouped_mm(x, weight, offs=ends), "aten._grouped_mm")).macs == 6 * 16 * 8


@few
@given(size, size, size, size)
def test_bilinear_counts_every_scalar_product(rows, first, second, out):
    """Each output feature: the first input times its matrix, then times the second input."""
    a, b, weight, tally = normal(rows, first), normal(rows, second), normal(out, first, second), Tally()
    expected = np.zeros((rows, out))
    for i in range(rows):
        for o in range(out):
            half = tally.matmul(a[i : i + 1].numpy(), weight[o].numpy())
            expected[i, o] = tally.matmul(half, b[i : i + 1].numpy().T)[0, 0]

    result = torch.nn.functional.bilinear(a, b, weight)
    with torch.inference_mode():
        whole = call(lambda: torch.nn.functional.bilinear(a, b, weight), "aten.bilinear")

    assert np.allclose(result, expected)
    assert cost(whole).macs == tally.products
    assert cost(call(lambda: torch.nn.functional.bilinear(a, b, weight), "aten._trilinear")).macs == tally.products


def test_bilinear_and_its_backward_cost_what_their_kernels_run():
    a, b, weight = (t.requires_grad_() for t in (normal(3, 4), normal(3, 5), normal(2, 4, 5)))

    parts = live(lambda: torch.nn.functional.bilinear(a, b, weight).sum().backward(), "_trilinear")

    assert len(parts) == 4
    for func, args, kwargs in parts:
        made = cost(record(func, args, kwargs, func(*args, **kwargs)))
        assert (made.macs, made.flops) == total(inside(func, *args, **kwargs))


def test_tensordot_and_inner_sum_over_the_contracted_dimensions():
    a, b = normal(2, 3, 4), normal(3, 4, 5)
    with torch.inference_mode():
        dotted = call(lambda: torch.tensordot(a, b, dims=([1, 2], [0, 1])), "aten.tensordot")
        inner = call(lambda: torch.inner(a, normal(6, 4)), "aten.inner")

    assert cost(dotted).macs == 2 * 5 * 3 * 4
    assert cost(inner).macs == 2 * 3 * 6 * 4


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_foreach_mm"), reason="newer than the oldest torch")
def test_a_list_of_products_is_their_sum():
    made = handmade("aten._foreach_mm", (2, 4), (5, 7), self=(tensor((2, 3)), tensor((5, 6))),
                    mat2=(tensor((3, 4)), tensor((6, 7))))  # fmt: skip

    assert cost(made).macs == 2 * 3 * 4 + 5 * 6 * 7


def test_an_affine_grid_is_a_product_with_homogeneous_coordinates():
    theta = normal(2, 2, 3).requires_grad_()

    made = call(
        lambda: torch.nn.functional.affine_grid(theta, [2, 1, 4, 5], align_corners=False), "aten.affine_grid_generator"
    )

    assert cost(made).macs == 2 * 4 * 5 * (2 * 3)
