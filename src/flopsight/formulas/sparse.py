"""Products with sparse operands that have ops of their own; `mm` and its kin with a sparse operand are in matmul.py.

A stored element takes part in one multiply-accumulate a partner; `facts["nnz"]` says how many numbers are stored.
A 2:4 sparse matrix stores half of its numbers, so its products are half the dense ones.
"""

from ..results.costs import Cost
from ..results.records import OpRecord
from .elementwise import elements
from .matmul import added, macs_for, multiply, products, scaled_sum
from .registry import aten, formula


def numbers(call: OpRecord) -> int:
    """How many numbers the sparse operand stores."""
    if "nnz" not in call.facts:
        raise ValueError("the number of stored elements (nnz) is not known")
    return int(call.facts["nnz"])


@formula("aten.sparse_sampled_addmm")
def sampled_addmm(call: OpRecord) -> Cost:
    """An inner product and a sum for each stored element of the result."""
    nnz = numbers(call)
    macs = macs_for(call, nnz * call.shape("mat1")[-1])
    return Cost(macs, 2 * macs + (nnz if call.args["beta"] != 0 else 0))


@formula(*aten("_sparse_mm.reduce _sparse_mm_reduce_impl"))
def mm_reduce(call: OpRecord) -> Cost:
    """A sparse-dense product whose sum may be a mean or a maximum."""
    dense = call.shape("other" if "other" in call.args else "dense")
    return products(call, numbers(call) * dense[-1])


@formula("aten._sparse_mm_reduce_impl_backward")
def mm_reduce_backward(call: OpRecord) -> Cost:
    """Each gradient asked for takes as many products as the forward did."""
    return products(call, numbers(call) * call.shape("grad_out")[-1] * sum(call.args["output_mask"]))


@formula("aten.hspmm")
def hspmm(call: OpRecord) -> Cost:
    """A sparse-dense product with a hybrid result."""
    return products(call, numbers(call) * call.shape("mat2")[-1])


@formula("aten._sparse_sparse_matmul")
def sparse_sparse(call: OpRecord) -> Cost:
    """The pairs of stored elements that meet."""
    return multiply(call, "self", "other")


@formula(*aten("_sparse_semi_structured_mm _sparse_semi_structured_addmm"))
def semi_structured_mm(call: OpRecord) -> Cost:
    """A 2:4 sparse matrix, given by what it stores, times a dense one, and in some the sum with a bias."""
    (m, half), n = call.shape("mat1"), call.shape("mat2")[-1]
    return products(call, m * half * n, scaled_sum(call) if "addmm" in call.op else 0)


@formula("aten._sparse_semi_structured_linear")
def semi_structured_linear(call: OpRecord) -> Cost:
    """A linear layer whose 2:4 sparse weight is given by what it stores."""
    activated = call.output.numel if call.args["activation"] not in (None, "none") else 0
    return products(call, call.output.numel * call.shape("weight")[-1], added(call) + activated)


@formula("aten._cslt_sparse_mm")
def cslt_mm(call: OpRecord) -> Cost:
    """A 2:4 sparse matrix in the vendor's layout: half of the inner dimension is multiplied."""
    k = call.shape("dense_B")[0]
    return products(call, call.output.numel * k // 2, added(call))


@formula(*aten("_sparse_softmax _sparse_log_softmax"))
def sparse_softmax(call: OpRecord) -> Cost:
    """Five FLOPs a stored element."""
    return Cost(flops=5 * numbers(call) if elements(call.output) else 0)


@formula(*aten("_sparse_softmax_backward_data _sparse_log_softmax_backward_data"))
def sparse_softmax_backward(call: OpRecord) -> Cost:
    """Four FLOPs a stored element."""
    return Cost(flops=4 * numbers(call))


@formula("aten._sparse_sum_backward")
def sparse_sum_backward(_: OpRecord) -> Cost:
    """The gradient is spread over the stored elements: nothing is added."""
    return Cost()
