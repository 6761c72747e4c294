"""Quantised products: integers and small floats are multiplied and accumulated like any other numbers."""

import numpy as np
import pytest
import torch
from formulas.calls import call, cost, handmade, tensor
from formulas.naive import Tally
from hypothesis import given, settings
from hypothesis import strategies as st

from flopsight.formulas import price
from flopsight.results.records import OpRecord

size = st.integers(1, 4)
few = settings(max_examples=15)
pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore::DeprecationWarning")


@few
@given(size, size, size)
def test_integer_products_count_every_scalar_product(m, k, n):
    a, b = (torch.randint(-5, 5, shape, dtype=torch.int8) for shape in ((m, k), (k, n)))
    tally = Tally()
    expected = tally.matmul(a.numpy().astype(int), b.numpy().astype(int))

    made = cost(call(lambda: torch._int_mm(a, b), "aten._int_mm"))

    assert np.array_equal(torch._int_mm(a, b), expected)
    assert (made.macs, made.flops) == (tally.products, 2 * tally.products)


@few
@given(size, size, size)
def test_a_dynamically_quantised_linear_counts_every_scalar_product(m, k, n):
    layer = torch.ao.nn.quantized.dynamic.Linear(k, n)

    made = cost(call(lambda: layer(torch.randn(m, k)), "quantized.linear_dynamic"))

    assert made.macs == m * k * n


def test_a_statically_quantised_linear():
    x = torch.quantize_per_tensor(torch.randn(2, 3, 8), 0.1, 0, torch.quint8)
    layer = torch.ao.nn.quantized.Linear(8, 4)

    made = cost(call(lambda: layer(x), "quantized.linear"))

    assert (made.macs, made.flops) == (2 * 3 * 8 * 4, 2 * 2 * 3 * 8 * 4)


def test_weights_of_eight_bits():
    x, weight, scales = (
        torch.randn(3, 32).bfloat16(),
        torch.randint(-5, 5, (16, 32), dtype=torch.int8),
        torch.ones(16).bfloat16(),
    )

    assert (
        cost(call(lambda: torch._weight_int8pack_mm(x, weight, scales), "aten._weight_int8pack_mm")).macs == 3 * 32 * 16
    )


def test_weights_of_four_bits():
    weight = torch.randint(0, 15, (32, 64), dtype=torch.int32)
    packed = torch._convert_weight_to_int4pack_for_cpu(weight, 1)
    x, scales = torch.randn(3, 64), torch.ones(2, 32, 2)
    run = lambda: torch._weight_int4pack_mm_for_cpu(x, packed, 32, scales)

    assert cost(call(run, "aten._weight_int4pack_mm_for_cpu")).macs == 3 * 64 * 32


FP8, FP4 = "float8_e4m3fn", "float4_e2m1fn_x2"
SCALES = {"scale_a": (tensor((1,)),), "recipe_a": (0,), "swizzle_a": (0,), "scale_b": (tensor((1,)),), "recipe_b": (0,),
          "swizzle_b": (0,)}  # fmt: skip


@pytest.mark.parametrize(
    ("made", "macs", "adds"),
    [
        (handmade("aten._scaled_mm", (3, 8), self=tensor((3, 16), FP8), mat2=tensor((16, 8), FP8), scale_a=(1,),
                  scale_b=(1,), bias=(8,)), 3 * 16 * 8, 24),
        (handmade("aten._scaled_mm_v2", (3, 8), self=tensor((3, 16), FP8), mat2=tensor((16, 8), FP8), **SCALES, bias=None,
                  out_dtype=None), 3 * 16 * 8, 0),
        (handmade("aten._scaled_addmm", (3, 8), self=(3, 8), mat1=tensor((3, 16), FP8), mat2=tensor((16, 8), FP8),
                  **SCALES), 3 * 16 * 8, 24),
        (handmade("aten._scaled_mm", (3, 8), self=tensor((3, 16), FP4), mat2=tensor((16, 8), FP4), scale_a=(1,),
                  scale_b=(1,)), 3 * 32 * 8, 0),
        (handmade("aten._scaled_grouped_mm", (6, 8), self=tensor((6, 16), FP8), mat2=tensor((2, 16, 8), FP8),
                  scale_a=(6,), scale_b=(2, 8), offs=(2,)), 6 * 16 * 8, 0),
        (handmade("aten._scaled_grouped_mm_v2", (6, 8), self=tensor((6, 16), FP8), mat2=tensor((2, 16, 8), FP8), **SCALES,
                  offs=(2,)), 6 * 16 * 8, 0),
        (handmade("aten._mixed_dtypes_linear", (2, 3, 8), input=(2, 3, 16), weight=tensor((16, 8), "int8"), scale=(8,),
                  bias=(8,), activation="relu"), 2 * 3 * 16 * 8, 96),
        (handmade("aten._dyn_quant_matmul_4bit", (3, 8), inp=(3, 16), packed_weights=tensor((100,), "uint8"),
                  block_size=16, in_features=16, out_features=8), 3 * 16 * 8, 0),
        (handmade("aten._weight_int4pack_mm", (3, 8), self=(3, 16), mat2=tensor((1, 1, 32, 4), "int32"), qGroupSize=16,
                  qScaleAndZeros=(1, 8, 2)), 3 * 16 * 8, 0),
        (handmade("onednn.qlinear_pointwise", (3, 8), qx=tensor((3, 16), "uint8"), x_scale=0.1, x_zero_point=0,
                  qw=tensor((16, 8), "int8"), w_scale=(8,), w_zero_point=(8,), bias=(8,), output_scale=1.0,
                  output_zero_point=0, output_dtype=None, post_op_name="none", post_op_args=(), post_op_algorithm=""),
         3 * 16 * 8, 24),
        (handmade("onednn.qconv_pointwise", (1, 4, 6, 6), qx=tensor((1, 2, 8, 8), "uint8"), x_scale=0.1, x_zero_point=0,
                  qw=tensor((4, 2, 3, 3), "int8"), w_scale=(4,), w_zero_point=(4,), bias=None, stride=(1, 1),
                  padding=(0, 0), dilation=(1, 1), groups=1, output_scale=1.0, output_zero_point=0, output_dtype=None,
                  attr="none", scalars=(), algorithm=None), 4 * 36 * 18, 0),
    ],
)  # fmt: skip
def test_low_precision_products_of_other_devices(made, macs, adds):
    assert (cost(made).macs, cost(made).flops) == (macs, 2 * macs + adds)


def packed_convolution(layer, op, **facts):
    x = torch.quantize_per_tensor(torch.randn(1, 2, 8, 8), 0.1, 0, torch.quint8)
    made = call(lambda: layer(x), op)
    return OpRecord(made.op, made.overload, made.args, made.outputs, made.kind, facts)


def test_a_packed_convolution_needs_the_shape_of_its_weight():
    layer = torch.ao.nn.quantized.Conv2d(2, 4, 3)

    known = packed_convolution(layer, "quantized.conv2d", weight_shape=(4, 2, 3, 3))
    unknown = packed_convolution(layer, "quantized.conv2d")

    assert cost(known).macs == 4 * 36 * 18
    assert "the shape of the packed weight is not known" in price(unknown).why


def test_a_packed_transposed_convolution_slides_over_its_input():
    layer = torch.ao.nn.quantized.ConvTranspose2d(2, 4, 3)

    made = packed_convolution(layer, "quantized.conv_transpose2d", weight_shape=(2, 4, 3, 3))

    assert cost(made).macs == 2 * 8 * 8 * 4 * 9


def test_quantising_is_no_floating_point_arithmetic():
    x = torch.randn(6)

    made = call(lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), "aten.quantize_per_tensor")

    assert price(made).status == "free"
