"""Fourier transforms: 5 N log2 N real FLOPs for a complex transform of N points, half of that for a real one.

This is the customary count of a radix-2 algorithm, used for every length; no multiply-accumulates are counted.
"""

from math import log2, prod

from ..results.costs import Cost
from ..results.records import OpRecord
from .registry import aten, formula


@formula(*aten("_fft_c2c _fft_r2c _fft_c2r"))
def transform(call: OpRecord) -> Cost:
    """5 N log2 N FLOPs a transform, and half of that if its input or output is real; N counts the longer side."""
    rate = 5 if call.op.endswith("c2c") else 2.5
    meta = call.tensor("self") if call.op.endswith("r2c") else call.output
    points = prod(meta.shape[dim] for dim in call.args["dim"])
    return Cost(flops=round(rate * meta.numel * log2(points)) if points > 1 else 0)
