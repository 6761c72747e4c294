"""Fourier transforms: 5 N log2 N real FLOPs for a complex transform of N points, half of that for a real one.

This is the customary count of a radix-2 algorithm, used for every length; no multiply-accumulates are counted.
"""

from math import log2, prod

from ..results.costs import Cost
from ..results.records import OpRecord, TensorMeta
from .registry import formula


def transform(meta: TensorMeta, dims: tuple[int, ...], rate: float) -> Cost:
    """`rate` FLOPs for each element and doubling of the number of points."""
    points = prod(meta.shape[dim] for dim in dims)
    return Cost(flops=round(rate * meta.numel * log2(points)) if points > 1 else 0)


@formula("aten._fft_c2c")
def complex_to_complex(call: OpRecord) -> Cost:
    """5 N log2 N a transform."""
    return transform(call.output, call.args["dim"], 5)


@formula("aten._fft_r2c")
def real_to_complex(call: OpRecord) -> Cost:
    """Half of a complex transform of as many points as the input has."""
    return transform(call.tensor("self"), call.args["dim"], 2.5)


@formula("aten._fft_c2r")
def complex_to_real(call: OpRecord) -> Cost:
    """Half of a complex transform of as many points as the output has."""
    return transform(call.output, call.args["dim"], 2.5)
