"""Interpolation between samples: each tap that an output element reads is a product and a sum, two FLOPs."""

from math import ceil, prod

from ..results.costs import Cost
from ..results.records import OpRecord, Shape, TensorMeta
from .elementwise import elements
from .registry import aten, formula

TAPS = {"linear1d": 2, "bilinear2d": 4, "trilinear3d": 8, "bicubic2d": 16}
REACH = {"bilinear2d": 2, "bicubic2d": 4, "lanczos2d": 6}
"""Samples along one axis that an antialiasing filter spans if it does not shrink the image."""
BILINEAR, NEAREST, BICUBIC = 0, 1, 2


def method(call: OpRecord) -> str:
    """The word in the op's name that says how it interpolates."""
    return call.op.split("upsample_")[1].split("_")[0]


@formula(
    *aten("""
    upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d
    upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward upsample_bicubic2d_backward
    """)
)
def upsample(call: OpRecord) -> Cost:
    """Two FLOPs a tap of each output element, or of its gradient: 2, 4, 8 or 16 taps."""
    return Cost(flops=2 * TAPS[method(call)] * elements(_sampled(call)))


def _sampled(call: OpRecord) -> TensorMeta:
    """The output, or its gradient."""
    return call.tensor("grad_output") if "grad_output" in call.args else call.output


def filtered(small: Shape, big: Shape, reach: int) -> int:
    """FLOPs of a filter run along each axis in turn; shrinking an image widens it."""
    *lead, h_in, w_in = small
    h_out, w_out = big[-2:]
    across = ceil(reach * max(1.0, w_in / w_out))
    down = ceil(reach * max(1.0, h_in / h_out))
    return 2 * prod(lead) * (h_in * w_out * across + h_out * w_out * down)


@formula(
    *aten("""
    _upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa
    _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward _upsample_lanczos2d_aa_backward
    """)
)
def antialiased(call: OpRecord) -> Cost:
    """Two FLOPs a tap, forward and backward: first along the rows, then along the columns."""
    small = call.output if "grad_output" in call.args else call.inputs[0]
    return Cost(flops=filtered(small.shape, _sampled(call).shape, REACH[method(call)]))


def sampled(call: OpRecord, elements_out: int) -> int:
    """FLOPs of reading samples at free positions: 2 to the rank taps, 4 to the rank for cubic, none for nearest."""
    rank = call.shape("grid")[-1]
    mode: int = call.args.get("interpolation_mode", BILINEAR)
    along = {BILINEAR: 2, NEAREST: 0, BICUBIC: 4}[mode]
    return 2 * int(along**rank) * elements_out


@formula(
    *aten("""
    grid_sampler grid_sampler_2d grid_sampler_3d cudnn_grid_sampler _grid_sampler_2d_cpu_fallback
    grid_sampler_2d_backward grid_sampler_3d_backward cudnn_grid_sampler_backward
    _grid_sampler_2d_cpu_fallback_backward
    """)
)
def grid_sampler(call: OpRecord) -> Cost:
    """Two FLOPs a tap of each output element; backward for the gradient of the input and, if asked for, of the grid."""
    wanted = sum(call.args.get("output_mask", (True, True))) if "backward" in call.op else 1
    return Cost(flops=sampled(call, elements(_sampled(call))) * wanted)
