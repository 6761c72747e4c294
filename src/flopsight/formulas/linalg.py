"""Factorisations and solvers: the textbook's leading-order FLOPs (Golub and Van Loan), no multiply-accumulates.

m by n is the matrix, k the smaller of the two, r the number of right-hand sides; a complex operation counts as four.
"""

from math import prod

from ..results.costs import Cost
from ..results.records import OpRecord, Shape, TensorMeta
from .registry import aten, formula


def matrix(call: OpRecord) -> TensorMeta:
    """The matrix that an op is about: its first tensor."""
    return call.inputs[0]


def batched(meta: TensorMeta, flops: float) -> Cost:
    """The same work for each matrix of a batch."""
    each = round(flops) * (4 if meta.is_complex else 1)
    return Cost(flops=prod(meta.shape[:-2]) * each)


def sizes(shape: Shape) -> tuple[int, int, int]:
    """Rows, columns, and the smaller of the two."""
    m, n = shape[-2:]
    return m, n, min(m, n)


def lu_flops(m: int, n: int) -> float:
    """FLOPs of Gaussian elimination, 2/3 n^3 for a square matrix."""
    k = min(m, n)
    return 2 * m * n * k - (m + n) * k**2 + 2 / 3 * k**3


def qr_flops(m: int, n: int) -> float:
    """FLOPs of Householder's reduction to a triangle, 2 m n^2 - 2/3 n^3 for a tall matrix: twice the elimination."""
    return 2 * lu_flops(m, n)


def reflected(m: int, n: int, k: int) -> float:
    """FLOPs of forming n columns of length m from k reflectors."""
    return 4 * m * n * k - 2 * (m + n) * k**2 + 4 / 3 * k**3


@formula(*aten("linalg_lu_factor_ex linalg_lu_factor linalg_lu _lu_with_info _linalg_det _linalg_slogdet"))
@formula(*aten("linalg_det linalg_slogdet det slogdet logdet"))
def lu(call: OpRecord) -> Cost:
    """Gaussian elimination; a determinant is hardly more."""
    m, n, _ = sizes(matrix(call).shape)
    return batched(matrix(call), lu_flops(m, n))


@formula(*aten("linalg_cholesky_ex linalg_cholesky cholesky linalg_ldl_factor_ex linalg_ldl_factor"))
def cholesky(call: OpRecord) -> Cost:
    """n^3 / 3."""
    return batched(matrix(call), matrix(call).shape[-1] ** 3 / 3)


@formula(*aten("linalg_inv_ex linalg_inv inverse"))
def inverse(call: OpRecord) -> Cost:
    """2 n^3."""
    return batched(matrix(call), 2 * matrix(call).shape[-1] ** 3)


@formula("aten.cholesky_inverse")
def cholesky_inverse(call: OpRecord) -> Cost:
    """2/3 n^3 from the factor."""
    return batched(matrix(call), 2 / 3 * matrix(call).shape[-1] ** 3)


@formula(*aten("_linalg_solve_ex linalg_solve_ex linalg_solve"))
def solve(call: OpRecord) -> Cost:
    """An elimination and two triangular solves for each right-hand side."""
    a = call.tensor("A")
    n = a.shape[-1]
    return batched(a, lu_flops(n, n)) + _substituted(call, a, call.tensor("B"), 2)


@formula(*aten("linalg_solve_triangular triangular_solve"))
def solve_triangular(call: OpRecord) -> Cost:
    """n^2 for each right-hand side."""
    a, b = ("self", "B") if "B" in call.args else ("A", "self")
    return _substituted(call, call.tensor(a), call.tensor(b), 1)


@formula(*aten("linalg_lu_solve linalg_ldl_solve lu_solve cholesky_solve _cholesky_solve_helper"))
def factored_solve(call: OpRecord) -> Cost:
    """Two triangular solves for each right-hand side."""
    factor = next(name for name in ("LU", "LD", "LU_data", "input2", "A") if name in call.args)
    return _substituted(call, call.tensor(factor), call.tensor("B" if "B" in call.args else "self"), 2)


def _substituted(call: OpRecord, a: TensorMeta, b: TensorMeta, times: int) -> Cost:
    """Count n FLOPs for each element of the solution and triangular solve; the solution may be broadcast."""
    n = a.shape[-1]
    elements = max(call.output.numel, b.numel)
    return Cost(flops=times * n * elements * (4 if a.is_complex else 1))


@formula(*aten("linalg_qr qr geqrf"))
def qr(call: OpRecord) -> Cost:
    """The triangle, and the orthogonal factor if it is formed; the reflectors come with the triangle."""
    m, n, k = sizes(matrix(call).shape)
    mode = call.args.get("mode", "reduced" if call.args.get("some", True) else "complete")
    formed = 0 if mode == "r" or "geqrf" in call.op else reflected(m, m if mode == "complete" else k, k)
    return batched(matrix(call), qr_flops(m, n) + formed)


@formula(*aten("linalg_householder_product orgqr"))
def householder_product(call: OpRecord) -> Cost:
    """4 m n k - 2 (m + n) k^2 + 4/3 k^3 for k reflectors."""
    m, n, _ = sizes(matrix(call).shape)
    return batched(matrix(call), reflected(m, n, call.inputs[1].shape[-1]))


@formula("aten.ormqr")
def ormqr(call: OpRecord) -> Cost:
    """Reflectors, k of length m, applied to each column: 4 m n k - 2 n k^2."""
    c = call.tensor("input3")
    m, n = c.shape[-2:] if call.args["left"] else (c.shape[-1], c.shape[-2])
    k = call.shape("input2")[-1]
    return batched(c, 4 * m * n * k - 2 * n * k**2)


@formula(*aten("_linalg_svd linalg_svd svd linalg_svdvals"))
def svd(call: OpRecord) -> Cost:
    """14 m k^2 + 8 k^3 with both bases, 4 m k^2 - 4/3 k^3 for the values alone, m the longer side."""
    a = matrix(call)
    rows, columns, k = sizes(a.shape)
    m = max(rows, columns)
    bases = call.args.get("compute_uv", "svdvals" not in call.op)
    return batched(a, 14 * m * k**2 + 8 * k**3 if bases else 4 * m * k**2 - 4 / 3 * k**3)


@formula(*aten("_linalg_eigh linalg_eigh linalg_eigvalsh"))
def eigh(call: OpRecord) -> Cost:
    """9 n^3 with vectors, 4/3 n^3 for the values alone."""
    vectors = call.args.get("compute_v", "eigvalsh" not in call.op)
    return batched(matrix(call), (9 if vectors else 4 / 3) * matrix(call).shape[-1] ** 3)


@formula(*aten("linalg_eig _linalg_eigvals linalg_eigvals"))
def eig(call: OpRecord) -> Cost:
    """25 n^3 with vectors, 10 n^3 for the values alone."""
    return batched(matrix(call), (10 if "eigvals" in call.op else 25) * matrix(call).shape[-1] ** 3)


@formula("aten.linalg_lstsq")
def lstsq(call: OpRecord) -> Cost:
    """A reduction to a triangle, its reflectors applied to each right-hand side, and a triangular solve."""
    a, b = call.tensor("self"), call.tensor("b")
    m, n, k = sizes(a.shape)
    r = b.shape[-1] if len(b.shape) == len(a.shape) else 1
    return batched(a, qr_flops(m, n) + (4 * m * k - 2 * k**2 + k**2) * r)


@formula(*aten("linalg_pinv linalg_polar"))
def from_bases(call: OpRecord) -> Cost:
    """A singular value decomposition and the product of its bases; of polar parts the stretch takes one more product."""
    rows, columns, k = sizes(matrix(call).shape)
    m = max(rows, columns)
    stretch = 2 * columns**2 * k if "polar" in call.op else 0
    return batched(matrix(call), 14 * m * k**2 + 8 * k**3 + 2 * rows * columns * k + stretch)


@formula("aten.linalg_matrix_sqrth")
def matrix_sqrth(call: OpRecord) -> Cost:
    """The eigenvectors of a Hermitian matrix, 9 n^3, and their product, 2 n^3."""
    return batched(matrix(call), 11 * matrix(call).shape[-1] ** 3)


@formula(*aten("linalg_matrix_exp matrix_exp"))
def matrix_exp(call: OpRecord) -> Cost:
    """Five products, a Taylor polynomial of degree 18; squarings depend on the matrix's norm and are left out."""
    return batched(matrix(call), 5 * 2 * matrix(call).shape[-1] ** 3)


@formula("aten._compute_linear_combination")
def linear_combination(call: OpRecord) -> Cost:
    """Sums of scaled terms: a product and a sum for each coefficient and element."""
    rows, terms = call.shape("coefficients")
    return Cost(flops=2 * rows * call.tensor("input").numel // max(call.shape("input")[0], 1) * terms)


@formula("aten._spsolve")
def sparse_solve(_: OpRecord) -> Cost:
    """How much a sparse factorisation fills in is not known before."""
    raise ValueError("the cost of a sparse solve depends on how its factors fill in")
