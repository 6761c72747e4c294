"""Pooling: one FLOP an element of what is pooled, forward and backward, however the windows overlap."""

from ..results.costs import Cost
from ..results.records import OpRecord
from .elementwise import elements
from .registry import aten, formula, named


@formula(
    *aten("""
    avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices
    max_pool3d_with_indices adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d
    _adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d
    fractional_max_pool3d mkldnn_adaptive_avg_pool2d mkldnn_max_pool2d mkldnn_max_pool3d quantized_max_pool1d
    quantized_max_pool2d quantized_max_pool3d
    avg_pool2d_backward avg_pool3d_backward max_pool2d_backward max_pool2d_with_indices_backward
    max_pool3d_with_indices_backward adaptive_avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward
    adaptive_max_pool2d_backward adaptive_max_pool3d_backward fractional_max_pool2d_backward
    fractional_max_pool3d_backward mkldnn_adaptive_avg_pool2d_backward mkldnn_max_pool2d_backward mkldnn_max_pool3d_backward
    """)
)
def pool(call: OpRecord) -> Cost:
    """One FLOP an input element."""
    return Cost(flops=elements(call.tensor("self" if "self" in call.args else "input")))


@formula(*named("quantized", "max_pool1d max_pool2d"))
def quantized_pool(call: OpRecord) -> Cost:
    """Integers are compared: no FLOP."""
    return Cost(flops=elements(call.inputs[0]))


@formula(
    *aten("""
    reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward
    replication_pad2d_backward replication_pad3d_backward unfold_backward
    upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward
    _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward
    col2im
    """)
)
def spread_backward(call: OpRecord) -> Cost:
    """Gradients of an element's copies, or overlapping columns, are added up: one FLOP an incoming element."""
    return Cost(flops=elements(call.inputs[0]))
