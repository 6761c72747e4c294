"""Sparse operands: loops over stored elements count the products."""

import numpy as np
import pytest
import torch
from formulas.calls import call, cost, handmade
from hypothesis import given, settings
from hypothesis import strategies as st

from flopsight.formulas import price

size = st.integers(1, 4)
few = settings(max_examples=20)
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")


def holes(data, m, k):
    """A matrix with some zeros."""
    kept = data.draw(st.lists(st.booleans(), min_size=m * k, max_size=m * k))
    return torch.randn(m, k, dtype=torch.float64) * torch.tensor(kept).reshape(m, k)


def loops(sparse, dense):
    """The product, one stored element after the other."""
    products, out = 0, np.zeros((sparse.shape[0], dense.shape[1]))
    for i, j in sparse.nonzero().tolist():
        for n in range(dense.shape[1]):
            out[i, n] += float(sparse[i, j]) * float(dense[j, n])
            products += 1
    return products, out


@few
@given(size, size, size, st.sampled_from(["to_sparse", "to_sparse_csr"]), st.data())
def test_a_sparse_matrix_multiplies_what_it_stores(m, k, n, layout, data):
    a, b, c = holes(data, m, k), torch.randn(k, n, dtype=torch.float64), torch.randn(m, n, dtype=torch.float64)
    sparse = getattr(a, layout)()
    products, expected = loops(a, b)

    made = cost(call(lambda: torch.mm(sparse, b), "aten.mm"))
    summed = cost(call(lambda: torch.addmm(c, sparse, b), "aten.addmm"))

    assert np.allclose(torch.mm(sparse, b), expected)
    assert made.macs == products
    assert (summed.macs, summed.flops) == (products, 2 * products + m * n)
    assert made.bytes == products // n * (8 + 8) + (k * n + m * n) * 8


@few
@given(size, size, size, st.data())
def test_a_sparse_right_operand_multiplies_what_it_stores(m, k, n, data):
    a, b = torch.randn(m, k, dtype=torch.float64), holes(data, k, n)
    products, expected = loops(b.t(), a.t())
    sparse = b.to_sparse_csr()

    assert np.allclose(torch.mm(a, sparse).to_dense(), expected.T)
    assert cost(call(lambda: torch.mm(a, sparse), "aten.mm")).macs == products


@few
@given(size, size, st.data())
def test_a_sparse_matrix_times_a_vector(m, k, data):
    a, v = holes(data, m, k), torch.randn(k, dtype=torch.float64)

    assert cost(call(lambda: torch.mv(a.to_sparse_csr(), v), "aten.mv")).macs == int((a != 0).sum())


@few
@given(size, size, size, st.data())
def test_sampled_products_are_inner_products_at_stored_places(m, k, n, data):
    pattern = holes(data, m, n)
    stored, products = int((pattern != 0).sum()), 0
    for _ in range(stored):
        products += k
    a, b = torch.randn(m, k, dtype=torch.float64), torch.randn(k, n, dtype=torch.float64)
    sparse = pattern.to_sparse_csr()

    made = cost(call(lambda: torch.sparse.sampled_addmm(sparse, a, b), "aten.sparse_sampled_addmm"))

    assert (made.macs, made.flops) == (products, 2 * products + stored)


@few
@given(size, size, size, st.sampled_from(["to_sparse", "to_sparse_csr", "to_sparse_csc"]), st.data())
def test_of_two_sparse_matrices_those_elements_are_multiplied_that_meet(m, k, n, layout, data):
    a, b = holes(data, m, k), holes(data, k, n)
    meeting = sum(int(a[i, j] != 0) * int(b[j, column] != 0) for i in range(m) for j in range(k) for column in range(n))
    left, right = getattr(a, layout)(), getattr(b, layout)()

    made = cost(call(lambda: torch.mm(left, right), "aten.mm"))

    assert (made.macs, made.flops) == (meeting, 2 * meeting)


def test_the_identity_times_itself_is_one_product_a_row():
    eye = torch.eye(8).to_sparse()

    made = cost(call(lambda: torch.sparse.mm(eye, eye), "aten._sparse_sparse_matmul"))

    assert (made.macs, made.bytes) == (8, 3 * 8 * (4 + 8)), "two operands and the result, each number with its index"


def test_a_dense_matrix_meets_what_a_sparse_one_stores():
    dense, sparse = torch.randn(4, 8), torch.eye(8, 16).to_sparse()

    made = cost(call(lambda: torch.mm(dense, sparse), "aten.mm"))

    assert made.macs == 4 * 8
    assert made.bytes == 4 * (4 * 8 + 4 * 16) + 8 * (4 + 8)


def test_two_sparse_matrices_whose_positions_are_not_known_are_not_guessed():
    record = handmade(
        "aten._sparse_sparse_matmul", (4, 4), self=(4, 4), other=(4, 4),
        facts={"sparse": ("self", "other"), "stored": (4, 4, 4)},
    )  # fmt: skip

    priced = price(record)

    assert priced.status == "unknown"
    assert "depends on their positions" in priced.why


@few
@given(size, size, size)
def test_two_of_four_sparsity_halves_the_products(m, half, n):
    """Of every four numbers in a row two are stored."""
    k = 4 * half
    products = 0
    for _row in range(m):
        for _group in range(half):
            products += 2 * n

    mm = handmade("aten._sparse_semi_structured_mm", (m, n), mat1=(m, k // 2), mat1_meta=(m, k // 16 + 1), mat2=(k, n))
    addmm = handmade(
        "aten._sparse_semi_structured_addmm", (m, n), input=(n,), mat1=(m, k // 2), mat1_meta=(m, 1), mat2=(k, n)
    )
    linear = handmade("aten._sparse_semi_structured_linear", (m, n), input=(m, k), weight=(n, k // 2), meta=(n, 1),
                      bias=(n,), activation="relu")  # fmt: skip
    cslt = handmade("aten._cslt_sparse_mm", (m, n), compressed_A=(m * k,), dense_B=(k, n))

    assert cost(mm).macs == cost(addmm).macs == cost(linear).macs == cost(cslt).macs == products
    assert cost(addmm).flops == 2 * products + m * n
    assert cost(linear).flops == 2 * products + 2 * m * n


def test_sparse_softmax_works_on_stored_elements():
    sparse = torch.eye(4).to_sparse()

    assert cost(call(lambda: torch.sparse.softmax(sparse, 1), "aten._sparse_softmax")).flops == 5 * 4
