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


@formula(*aten("convolution _convolution convolution_overrideable"))
def convolution(call: OpRecord) -> Cost:
    """A convolution, or its transpose, by argument."""
    slid = call.tensor("input") if call.args["transposed"] else call.output
    return products(call, sliding(slid, call.tensor("weight")), added(call))


@formula(*aten("conv1d conv2d conv3d _convolution_mode _nnpack_spatial_convolution"))
@formula(
    *aten("""
    cudnn_convolution miopen_convolution miopen_depthwise_convolution mkldnn_convolution _mps_convolution
    _slow_conv2d_forward slow_conv3d slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d _conv_depthwise2d
    conv_depthwise3d thnn_conv2d
    """)
)
def forward(call: OpRecord) -> Cost:
    """A convolution that is never transposed."""
    return products(call, sliding(call.output, call.tensor("weight")), added(call))


@formula(
    *aten("""
    conv_transpose1d conv_transpose2d conv_transpose3d cudnn_convolution_transpose miopen_convolution_transpose
    slow_conv_transpose2d slow_conv_transpose3d _mps_convolution_transpose
    """)
)
def transposed(call: OpRecord) -> Cost:
    """A transposed convolution: the filter slides over the input."""
    slid = call.tensor("input" if "input" in call.args else "self")
    return products(call, sliding(slid, call.tensor("weight")), added(call))


@formula(*aten("cudnn_convolution_relu miopen_convolution_relu"))
def with_relu(call: OpRecord) -> Cost:
    """A convolution and its ReLU."""
    return forward(call) + Cost(flops=elements(call.output))


@formula(*aten("cudnn_convolution_add_relu miopen_convolution_add_relu"))
def with_add_relu(call: OpRecord) -> Cost:
    """A convolution, the sum with another tensor, and the ReLU."""
    return forward(call) + Cost(flops=2 * elements(call.output))


@formula(*named("mkldnn", "_convolution_pointwise _convolution_transpose_pointwise"))
def pointwise_behind(call: OpRecord) -> Cost:
    """A convolution of oneDNN with what is fused behind it: an activation, another tensor, or both."""
    slid = call.tensor("X") if "transpose" in call.op else call.output
    fused = [call.args.get(name) for name in ("attr", "binary_attr", "unary_attr")]
    steps = sum(attr not in (None, "none") for attr in fused)
    return products(call, sliding(slid, call.tensor("W")), added(call, "B") + steps * elements(call.output))


@formula("aten.conv_tbc")
def conv_tbc(call: OpRecord) -> Cost:
    """A 1-d convolution over [time, batch, channel] with a weight [kernel, in, out]."""
    kernel, channels, _ = call.shape("weight")
    return products(call, call.output.numel * kernel * channels, added(call))


@formula(*aten("convolution_backward convolution_backward_overrideable"))
def convolution_backward(call: OpRecord) -> Cost:
    """The gradients that were asked for: input and weight as many products as the forward, the bias a sum."""
    return _backward(call, call.tensor("input"), transposed=call.args["transposed"])


@formula(*aten("_slow_conv2d_backward mps_convolution_backward"))
def backward(call: OpRecord) -> Cost:
    """The same for a convolution that is never transposed."""
    return _backward(call, call.tensor("self"), transposed=False)


@formula("aten.mps_convolution_transpose_backward")
def transposed_backward(call: OpRecord) -> Cost:
    """The same for one that always is, and has no bias."""
    return _backward(call, call.tensor("self"), transposed=True)


def _backward(call: OpRecord, x: TensorMeta, *, transposed: bool) -> Cost:
    grad, weight = call.tensor("grad_output"), call.tensor("weight")
    into_input, into_weight, *into_bias = call.args.get("output_mask", (True, True, True))
    forward = sliding(x if transposed else grad, weight)
    return products(call, forward * (into_input + into_weight), grad.numel * sum(into_bias))
