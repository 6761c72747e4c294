"""Distances between all pairs of rows."""

from ..results.costs import Cost
from ..results.records import OpRecord
from .matmul import products
from .registry import aten, formula

USE_PRODUCT, NEVER_PRODUCT = 1, 2
MANY_ROWS = 25
"""Above this many rows torch forms Euclidean distances with a matrix product."""


@formula("aten._euclidean_dist")
def euclidean(call: OpRecord) -> Cost:
    """|a|^2 - 2ab + |b|^2 as one product of rows lengthened by two, then a clamp and a root for each pair.

    Each input is squared and summed, and the first is scaled by -2: one FLOP an element each.
    """
    a, b = call.tensor("x1"), call.tensor("x2")
    pairs = call.output.numel
    return products(call, pairs * (a.shape[-1] + 2), 2 * a.numel + 2 * b.numel + a.numel + 2 * pairs)


@formula(*aten("_cdist_forward cdist"))
def cdist(call: OpRecord) -> Cost:
    """For each pair and column a difference and its share of the norm; or, as torch prefers for many rows, a product."""
    rows = max(call.shape("x1")[-2], call.shape("x2")[-2])
    mode = call.args.get("compute_mode")
    as_product = mode == USE_PRODUCT or (mode != NEVER_PRODUCT and rows > MANY_ROWS)
    if call.args["p"] == 2 and as_product:
        return euclidean(call)
    return Cost(flops=2 * call.output.numel * call.shape("x1")[-1])


@formula("aten._cdist_backward")
def cdist_backward(call: OpRecord) -> Cost:
    """Twice what the differences cost in the forward."""
    return Cost(flops=4 * call.tensor("cdist").numel * call.shape("x1")[-1])


@formula(*aten("_pdist_forward pdist _pdist_backward"))
def pdist(call: OpRecord) -> Cost:
    """The same for each pair of rows of one matrix."""
    pairs = 2 * call.tensor("pdist").numel if "backward" in call.op else call.output.numel
    return Cost(flops=2 * pairs * call.shape("self")[-1])
