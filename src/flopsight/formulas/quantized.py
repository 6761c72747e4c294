"""Products of quantised numbers: they count as multiply-accumulates, two FLOPs each, whatever the type.

Packed weights hide their shapes, so the input and the output give the sizes; a packed bias is not counted.
Quantising, and scaling the accumulated sums back, is part of the op and not counted.
"""

from math import prod

from ..results.costs import Cost
from ..results.records import OpRecord
from .conv import is_transposed
from .matmul import added, products
from .registry import aten, formula, named

LINEAR = """
linear linear_relu linear_dynamic linear_relu_dynamic linear_leaky_relu linear_tanh linear_dynamic_fp16
linear_relu_dynamic_fp16 linear_dynamic_fp16_unpacked_weight linear_with_input_q_dq_qweight_dq_output_fp32
linear_with_input_q_dq_qweight_dq_relu_output_fp32
"""


def rows_times_outputs(call: OpRecord) -> int:
    """Each element of the input, which comes first, meets every output feature."""
    return call.inputs[0].numel * call.output.shape[-1]


@formula(
    *named("quantized", LINEAR),
    *named("_quantized", "linear linear_dynamic wrapped_fbgemm_linear_fp16_weight wrapped_quantized_linear"),
    *named("_quantized", "_wrapped_quantized_linear_prepacked"),
    *named("sparse", "qlinear qlinear_relu qlinear_dynamic qlinear_relu_dynamic"),
    *aten("""
    _weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int4pack_mm_with_scales_and_zeros _weight_int8pack_mm
    """),
)
def packed_linear(call: OpRecord) -> Cost:
    """A linear layer with a packed weight, of 4 or 8 bits if activations are not quantised."""
    return products(call, rows_times_outputs(call))


@formula(
    *named("onednn", "linear_dynamic_fp16 linear_relu_dynamic_fp16 qlinear_pointwise"),
    *aten("""
    fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
    fbgemm_linear_int8_weight_fp32_activation _mixed_dtypes_linear
    """),
)
def library_linear(call: OpRecord) -> Cost:
    """A linear layer of a library, its bias, and an activation that is an argument of its own."""
    activated = call.output.numel if call.args.get("activation") not in (None, "none") else 0
    return products(call, rows_times_outputs(call), added(call) + activated)


@formula("aten._dyn_quant_matmul_4bit")
def dynamic_4bit(call: OpRecord) -> Cost:
    """Activations, quantised on the way, times a weight of 4 bits."""
    return products(call, call.tensor("inp").numel * call.args["out_features"])


@formula("quantized.matmul")
def quantized_matmul(call: OpRecord) -> Cost:
    """A product of two quantised matrices or batches."""
    return products(call, call.output.numel * call.shape("qa")[-1])


def hidden_weight(call: OpRecord) -> tuple[int, ...]:
    """The shape of a packed convolution weight, which capture unpacks."""
    if "weight_shape" not in call.facts:
        raise ValueError("the shape of the packed weight is not known")
    return tuple(call.facts["weight_shape"])


@formula(
    *named(
        "quantized",
        """
        conv1d conv2d conv3d conv1d_relu conv2d_relu conv3d_relu conv1d_dynamic conv2d_dynamic conv3d_dynamic
        conv2d_add conv2d_add_relu
        conv_transpose1d conv_transpose2d conv_transpose3d
        conv_transpose1d_dynamic conv_transpose2d_dynamic conv_transpose3d_dynamic
        """,
    ),
    *named("_quantized", "conv2d conv3d conv2d_relu conv3d_relu conv_transpose1d conv_transpose2d"),
)
def packed_conv(call: OpRecord) -> Cost:
    """A convolution, or its transpose, with a packed weight."""
    slid = call.tensor("qx") if is_transposed(call) else call.output
    return products(call, slid.numel * prod(hidden_weight(call)[1:]))


@formula(*named("onednn", "qconv_pointwise qconv1d_pointwise qconv2d_pointwise qconv3d_pointwise"))
def onednn_conv(call: OpRecord) -> Cost:
    """A convolution of oneDNN, its bias and what is fused behind it."""
    return products(call, call.output.numel * prod(call.shape("qw")[1:]), added(call))
