"""Pointwise ops, reductions, and all that does no arithmetic: what the kind of an op says about its cost."""

from ..records import OpRecord
from ..tree import FREE, Cost
from ..records import TensorMeta
from .registry import for_kind


def elements(*metas: TensorMeta) -> int:
    """Elements on which floating-point arithmetic is done; boolean and integer ones are none."""
    return sum(meta.numel for meta in metas if meta.is_real_number)


@for_kind("pointwise")
def pointwise(call: OpRecord) -> Cost:
    """One FLOP an output element."""
    return Cost(flops=elements(*call.outputs))


@for_kind("reduction")
def reduction(call: OpRecord) -> Cost:
    """One FLOP an input element, where the result is a number."""
    return Cost(flops=call.inputs[0].numel) if call.outputs and call.output.is_real_number else FREE


@for_kind("view")
@for_kind("copy")
@for_kind("random")
def free(call: OpRecord) -> Cost:
    """No arithmetic: zero is the answer, though a copy moves bytes."""
    return FREE
