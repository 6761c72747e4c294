"""Matrix products: every BLAS-like op, dense or with a sparse operand, and linear layers with their backward."""

from math import prod

from ..results.costs import Cost
from ..results.records import OpRecord, Shape, TensorMeta
from .elementwise import elements
from .registry import aten, formula, traffic

INDEX_BYTES = 8
"""What a sparse tensor keeps beside each number: one index of 64 bits."""


def product(a: Shape, b: Shape) -> int:
    """Multiply-accumulates of one matrix product, or of a batch of them."""
    *batch, m, k = a
    n = b[-1]
    return prod(batch) * m * n * k


def macs_for(call: OpRecord, macs: int) -> int:
    """Real multiply-accumulates: a complex product takes four."""
    return 4 * macs if call.output.is_complex else macs


def products(call: OpRecord, macs: int, adds: int = 0) -> Cost:
    """The cost of multiply-accumulates and of some additions, one FLOP each."""
    macs = macs_for(call, macs)
    return Cost(macs, 2 * macs + adds)


def added(call: OpRecord, name: str = "bias") -> int:
    """Additions of a bias: one an output element if there is one."""
    return elements(call.output) if call.args.get(name) is not None else 0


def scaled_sum(call: OpRecord) -> int:
    """Additions of `beta * self`: none if beta is 0, because `self` is then not even read."""
    return elements(call.output) if call.args.get("beta", 1) != 0 else 0


def multiply(call: OpRecord, left: str, right: str, adds: int = 0) -> Cost:
    """One product of two matrices or of two batches, by name; a sparse operand multiplies only what it stores."""
    a, b, sparse = call.tensor(left), call.tensor(right), call.facts.get("sparse", ())
    if left in sparse and right in sparse:
        return _both_sparse(call, a, b, adds)
    if left not in sparse and right not in sparse:
        return products(call, product(a.shape, b.shape), adds)
    kept, partners = (a, b.shape[-1]) if left in sparse else (b, a.shape[-2])
    nnz = int(call.facts["nnz"])
    macs = macs_for(call, nnz * partners)
    return Cost(macs, 2 * macs + adds, traffic(call) - kept.nbytes + nnz * (kept.itemsize + INDEX_BYTES))


def _both_sparse(call: OpRecord, a: TensorMeta, b: TensorMeta, adds: int) -> Cost:
    """The pairs of stored elements that are multiplied, as capture found them from their positions."""
    if "products" not in call.facts:
        raise ValueError("how many stored elements of two sparse matrices meet depends on their positions")
    macs = macs_for(call, int(call.facts["products"]))
    sizes = zip(call.facts["stored"], (a, b, call.output), strict=True)
    return Cost(macs, 2 * macs + adds, sum(nnz * (meta.itemsize + INDEX_BYTES) for nnz, meta in sizes))


@formula(*aten("mm bmm _int_mm _sparse_mm smm"))
def mm(call: OpRecord) -> Cost:
    """A matrix product, or a batch of them, which need not be equally large in nested tensors."""
    if "products" in call.facts and "sparse" not in call.facts:
        return products(call, int(call.facts["products"]))
    return multiply(call, *(("self", "mat2") if "self" in call.args else ("sparse", "dense")))


@formula(*aten("addmm _sparse_addmm sspaddmm _addmm_activation"))
def addmm(call: OpRecord) -> Cost:
    """A product and the sum with a matrix or a bias, one FLOP an output element; one more for a ReLU or a GELU on top."""
    activated = call.output.numel if "activation" in call.op else 0
    return multiply(call, "mat1", "mat2", scaled_sum(call) + activated)


@formula(*aten("baddbmm addbmm"))
def baddbmm(call: OpRecord) -> Cost:
    """A batch of products, each with its sum, or all accumulated into one matrix."""
    return multiply(call, "batch1", "batch2", scaled_sum(call))


@formula(*aten("mv dot vdot addmv"))
def mv(call: OpRecord) -> Cost:
    """Each element of the matrix, or of the first vector, is used once; of a sparse matrix those it stores."""
    adds = scaled_sum(call) if "mat" in call.args else 0
    return products(call, call.facts.get("nnz", call.tensor("mat" if "mat" in call.args else "self").numel), adds)


@formula("aten._foreach_mm")
def foreach_mm(call: OpRecord) -> Cost:
    """A list of products, each of its own shape."""
    pairs = zip(call.tensors("self"), call.tensors("mat2"), strict=True)
    return products(call, sum(product(a.shape, b.shape) for a, b in pairs))


@formula("inductor._mm_plus_mm")
def mm_plus_mm(call: OpRecord) -> Cost:
    """Two products and their sum."""
    macs = product(call.shape("a"), call.shape("b")) + product(call.shape("c"), call.shape("d"))
    return products(call, macs, elements(call.output))


@formula(*aten("matmul linalg_matmul inner"))
def matmul(call: OpRecord) -> Cost:
    """Each output element is an inner product as long as the last dimension of the first operand, broadcast or not."""
    if "products" in call.facts:
        return products(call, int(call.facts["products"]))
    return products(call, call.output.numel * call.shape("self")[-1])


@formula("aten.tensordot")
def tensordot(call: OpRecord) -> Cost:
    """Each output element sums over the contracted dimensions."""
    return products(call, call.output.numel * prod(call.shape("self")[dim] for dim in call.args["dims_self"]))


@formula("aten.matmul_backward")
def matmul_backward(call: OpRecord) -> Cost:
    """Each operand's gradient takes as many products as the forward did."""
    forward = call.tensor("grad").numel * call.shape("self")[-1]
    return products(call, forward * sum(call.args["mask"]))


@formula(*aten("linear mkldnn_linear"))
def linear(call: OpRecord) -> Cost:
    """Each output element is an inner product over the input features."""
    features = call.shape("weight")[-1]
    return products(call, call.output.numel * features, added(call))


@formula("mkldnn._linear_pointwise")
def linear_pointwise(call: OpRecord) -> Cost:
    """A linear layer with an activation, or with another tensor added or multiplied in."""
    macs = call.output.numel * call.shape("X")[-1]
    return products(call, macs, added(call, "B") + (call.output.numel if call.args["attr"] != "none" else 0))


@formula(*aten("linear_backward mkldnn_linear_backward mkldnn_linear_backward_input mkldnn_linear_backward_weights"))
def linear_backward(call: OpRecord) -> Cost:
    """The gradients that were asked for: input and weight a product each, the bias a sum over rows."""
    grad = call.tensor("grad_output")
    of_one = (call.op.endswith("_input"), call.op.endswith("_weights"), call.args.get("bias_defined", False))
    into_input, into_weight, into_bias = call.args.get("output_mask", of_one)
    forward = grad.numel * call.shape("weight")[-1]
    return products(call, forward * (into_input + into_weight), grad.numel * into_bias)


def numbers_per_element(meta: TensorMeta) -> int:
    """Two for types that pack two 4-bit numbers into a byte."""
    return 2 if meta.dtype.endswith("_x2") else 1


@formula(*aten("_scaled_mm _scaled_mm_v2 _scaled_addmm"))
def scaled_mm(call: OpRecord) -> Cost:
    """A product of 8-bit or 4-bit floats, some with a matrix added; applying their scales is part of reading them."""
    left, adds = ("mat1", call.output.numel) if "mat1" in call.args else ("self", added(call))
    (m, k), n = call.shape(left), call.shape("mat2")[-1]
    return products(call, m * n * k * numbers_per_element(call.tensor(left)), adds)


@formula("aten.bilinear")
def bilinear(call: OpRecord) -> Cost:
    """The first input times the weight, then times the second input, each output feature by itself and added to 0."""
    _, first, second = call.shape("weight")
    return products(call, call.output.numel * (first * second + second), call.output.numel + added(call))


@formula("aten._trilinear")
def trilinear(call: OpRecord) -> Cost:
    """Three factors: the first two are contracted over what the third lacks, then the third over the rest.

    torch goes through one dimension slice by slice and adds the slices up; without a contraction a step is pointwise.
    """
    missing = [set(call.args[f"expand{i}"]) for i in (1, 2, 3)]
    sizes = _sizes([call.shape(f"i{i}") for i in (1, 2, 3)], missing)
    slices, sizes[call.args["unroll_dim"]] = sizes[call.args["unroll_dim"]], 1
    summed = set(call.args["sumdim"])
    within = summed - {call.args["unroll_dim"]}
    early, late = within & missing[2], within - missing[2]
    first = prod(size for dim, size in enumerate(sizes) if dim not in missing[0] & missing[1])
    second = prod(size for dim, size in enumerate(sizes) if dim not in early)
    result = prod(size for dim, size in enumerate(sizes) if dim not in summed)
    macs = (first if early else 0) + (second if late else 0)
    adds = (0 if early else first) + (0 if late else second) + result
    return products(call, slices * macs, slices * adds)


def _sizes(shapes: list[Shape], missing: list[set[int]]) -> list[int]:
    """The size of each dimension, of which a factor may lack some."""
    rank = len(shapes[0]) + len(missing[0])
    sizes = [1] * rank
    for shape, lacks in zip(shapes, missing, strict=True):
        present = (dim for dim in range(rank) if dim not in lacks)
        for dim, size in zip(present, shape, strict=True):
            sizes[dim] = max(sizes[dim], size)
    return sizes


@formula(*aten("affine_grid_generator cudnn_affine_grid_generator"))
def affine_grid(call: OpRecord) -> Cost:
    """Every grid point is a homogeneous coordinate times its sample's matrix."""
    return products(call, call.output.numel * call.shape("theta")[-1])


@formula(*aten("affine_grid_generator_backward cudnn_affine_grid_generator_backward"))
def affine_grid_backward(call: OpRecord) -> Cost:
    """The matrix's gradient, one product over the grid points."""
    return products(call, call.tensor("grad").numel * call.output.shape[-1])


@formula("aten.linalg_vecdot")
def vecdot(call: OpRecord) -> Cost:
    """An inner product for each output element."""
    return products(call, call.output.numel * call.shape("x")[call.args["dim"]])
