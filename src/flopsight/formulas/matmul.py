"""Matrix products, dense: every BLAS-like op."""

from ..records import OpRecord, Shape
from ..tree import Cost
from .registry import formula


def product(a: Shape, b: Shape) -> int:
    """Multiply-accumulates of one matrix product."""
    (m, k), (_, n) = a, b
    return m * n * k


def macs_for(call: OpRecord, macs: int) -> int:
    """Real multiply-accumulates: a complex product takes four."""
    return 4 * macs if call.output.is_complex else macs


@formula("aten.mm")
def mm(call: OpRecord) -> Cost:
    """One matrix product."""
    return Cost(macs=macs_for(call, product(call.shape("self"), call.shape("mat2"))))


@formula("aten.addmm")
def addmm(call: OpRecord) -> Cost:
    """A product and the sum with a matrix or a bias, one FLOP an output element."""
    macs = macs_for(call, product(call.shape("mat1"), call.shape("mat2")))
    return Cost(macs, 2 * macs + call.output.numel)
