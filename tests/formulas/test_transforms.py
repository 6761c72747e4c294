"""Fourier transforms and factorisations: the textbook's counts, written out for small sizes."""

import pytest
import torch
from formulas.calls import call, calls, cost, handmade

F64 = torch.float64


@pytest.mark.parametrize(
    ("run", "flops"),
    [
        (lambda: torch.fft.fft(torch.randn(3, 8, dtype=torch.complex64)), 3 * 5 * 8 * 3),
        (lambda: torch.fft.ifft(torch.randn(3, 8, dtype=torch.complex64)), 3 * 5 * 8 * 3),
        (lambda: torch.fft.rfft(torch.randn(3, 8)), 3 * 5 * 8 * 3 // 2),
        (lambda: torch.fft.irfft(torch.randn(3, 5, dtype=torch.complex64)), 3 * 5 * 8 * 3 // 2),
        (lambda: torch.fft.fft2(torch.randn(4, 8, dtype=torch.complex64)), 5 * 32 * 5),
        (lambda: torch.fft.fft(torch.randn(3, 1, dtype=torch.complex64)), 0),
    ],
)
def test_a_transform_is_five_n_log_n(run, flops):
    (made,) = [record for record in calls(run) if "fft" in record.op]

    assert (cost(made).macs, cost(made).flops) == (0, flops)


square = torch.randn(2, 6, 6, dtype=F64) + 6 * torch.eye(6, dtype=F64)
definite = square @ square.mT
tall = torch.randn(9, 6, dtype=F64)
sides = torch.randn(2, 6, 4, dtype=F64)


@pytest.mark.parametrize(
    ("run", "op", "flops"),
    [
        (lambda: torch.linalg.lu_factor(square), "aten.linalg_lu_factor_ex", 2 * 2 / 3 * 216),
        (lambda: torch.linalg.det(square), "aten._linalg_det", 2 * 2 / 3 * 216),
        (lambda: torch.linalg.slogdet(square), "aten._linalg_slogdet", 2 * 2 / 3 * 216),
        (lambda: torch.linalg.lu_factor(tall), "aten.linalg_lu_factor_ex", 9 * 36 - 216 / 3),
        (lambda: torch.linalg.cholesky(definite), "aten.linalg_cholesky_ex", 2 * 216 / 3),
        (lambda: torch.linalg.inv(square), "aten.linalg_inv_ex", 2 * 2 * 216),
        (lambda: torch.linalg.solve(square, sides), "aten._linalg_solve_ex", 2 * (2 / 3 * 216 + 2 * 36 * 4)),
        (
            lambda: torch.linalg.solve_triangular(square, sides, upper=True),
            "aten.linalg_solve_triangular",
            2 * 36 * 4,
        ),
        (lambda: torch.linalg.qr(tall), "aten.linalg_qr", 2 * (2 * 9 * 36 - 2 / 3 * 216)),
        (lambda: torch.linalg.qr(tall, mode="r"), "aten.linalg_qr", 2 * 9 * 36 - 2 / 3 * 216),
        (lambda: torch.linalg.svd(tall, full_matrices=False), "aten._linalg_svd", 14 * 9 * 36 + 8 * 216),
        (lambda: torch.ops.aten._linalg_svd(tall, False, False), "aten._linalg_svd", 4 * 9 * 36 - 4 / 3 * 216),
        (lambda: torch.linalg.eigh(definite), "aten._linalg_eigh", 2 * 9 * 216),
        (lambda: torch.ops.aten._linalg_eigh(definite, "L", False), "aten._linalg_eigh", 2 * 4 / 3 * 216),
        (lambda: torch.linalg.eig(square), "aten.linalg_eig", 2 * 25 * 216),
        (lambda: torch.ops.aten._linalg_eigvals(square), "aten._linalg_eigvals", 2 * 10 * 216),
        (lambda: torch.linalg.matrix_exp(square), "aten.linalg_matrix_exp", 2 * 10 * 216),
        (
            lambda: torch.linalg.lstsq(tall, torch.randn(9, 2, dtype=F64)),
            "aten.linalg_lstsq",
            2 * 9 * 36 - 2 / 3 * 216 + 2 * (4 * 9 * 6 - 2 * 36) + 36 * 2,
        ),
        (lambda: torch.linalg.cholesky(definite.to(torch.complex128)), "aten.linalg_cholesky_ex", 4 * 2 * 216 / 3),
    ],
)
def test_factorisations_and_solvers(run, op, flops):
    made = cost(call(run, op))

    assert (made.macs, made.flops) == (0, round(flops))


def test_a_polar_decomposition_is_a_singular_value_decomposition_and_two_products():
    made = cost(handmade("aten.linalg_polar", (9, 6), (6, 6), A=(9, 6)))

    assert (made.macs, made.flops) == (0, 14 * 9 * 36 + 8 * 216 + 2 * 9 * 36 + 2 * 216)


def test_a_square_root_is_the_eigenvectors_and_their_product():
    made = cost(handmade("aten.linalg_matrix_sqrth", (2, 6, 6), self=(2, 6, 6)))

    assert (made.macs, made.flops) == (0, 2 * (9 + 2) * 216)
