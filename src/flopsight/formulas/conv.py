"""Convolutions of every kind and backend, forward and backward.

A weight is [out, in/groups, *kernel], transposed [in, out/groups, *kernel], so all but its first dimension is what one
element of the output, transposed of the input, is multiplied with. Products with padding count like any other.
"""

from math import prod

from ..results.costs import Cost
from ..results.records import OpRecord, TensorMeta
from .elementwise import elements
from .matmul import added, products
from .registry import aten, formula, named


def sliding(meta: TensorMeta, weight: TensorMeta) -> int:
    """Multiply-accumulates of a filter that slides over every element of `meta`."""
    return meta.numel * prod(weight.shape[1:])


def is_transposed(call: OpRecord) -> bool:
    """Whether a convolution is a transposed one, by argument or by name: the filter then slides over the input."""
    return bool(call.args.get("transposed", "transpose" in call.op))


def data_of(call: OpRecord) -> TensorMeta:
    """What is convolved."""
    return call.tensor("input" if "input" in call.args else "self")


@formula(*aten("convolution _convolution convolution_overrideable conv1d conv2d conv3d _convolution_mode"))
@formula(
    *aten("""
    _nnpack_spatial_convolution cudnn_convolution miopen_convolution miopen_depthwise_convolution mkldnn_convolution
    _mps_convolution _slow_conv2d_forward slow_conv3d slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d
    _conv_depthwise2d conv_depthwise3d thnn_conv2d
    conv_transpose1d conv_transpose2d conv_transpose3d cudnn_convolution_transpose miopen_convolution_transpose
    slow_conv_transpose2d slow_conv_transpose3d _mps_convolution_transpose
    """)
)
def convolution(call: OpRecord) -> Cost:
    """A convolution, or its transpose."""
    slid = data_of(call) if is_transposed(call) else call.output
    return products(call, sliding(slid, call.tensor("weight")), added(call))


@formula(*aten("cudnn_convolution_relu miopen_convolution_relu cudnn_convolution_add_relu miopen_convolution_add_relu"))
def with_relu(call: OpRecord) -> Cost:
    """A convolution, in some the sum with another tensor, and the ReLU."""
    return convolution(call) + Cost(flops=(2 if "add_relu" in call.op else 1) * elements(call.output))


@formula(*named("mkldnn", "_convolution_pointwise _convolution_transpose_pointwise"))
def pointwise_behind(call: OpRecord) -> Cost:
    """A convolution of oneDNN with what is fused behind it: an activation, another tensor, or both."""
    slid = call.tensor("X") if is_transposed(call) else call.output
    fused = [call.args.get(name) for name in ("attr", "binary_attr", "unary_attr")]
    steps = sum(attr not in (None, "none") for attr in fused)
    return products(call, sliding(slid, call.tensor("W")), added(call, "B") + steps * elements(call.output))


@formula("aten.conv_tbc")
def conv_tbc(call: OpRecord) -> Cost:
    """A 1-d convolution over [time, batch, channel] with a weight [kernel, in, out]."""
    kernel, channels, _ = call.shape("weight")
    return products(call, call.output.numel * kernel * channels, added(call))


@formula(
    *aten("""
    convolution_backward convolution_backward_overrideable _slow_conv2d_backward mps_convolution_backward
    mps_convolution_transpose_backward
    """)
)
def convolution_backward(call: OpRecord) -> Cost:
    """The gradients that were asked for: input and weight as many products as the forward, the bias a sum."""
    grad, weight = call.tensor("grad_output"), call.tensor("weight")
    into_input, into_weight, *into_bias = call.args.get("output_mask", (True, True, True))
    forward = sliding(data_of(call) if is_transposed(call) else grad, weight)
    return products(call, forward * (into_input + into_weight), grad.numel * sum(into_bias))
