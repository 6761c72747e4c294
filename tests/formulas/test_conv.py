"""Convolutions: every formula against a count of scalar products, made by loops that compute the same result."""

import numpy as np
import pytest
import torch
from formulas.calls import call, cost, handmade, tensor
from formulas.naive import Tally
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from torch.nn import functional as F

few = settings(max_examples=20)


@st.composite
def settings_of_a_convolution(draw):
    """Sizes of a small convolution in one or two dimensions that has at least one output element."""
    rank = draw(st.integers(1, 2))
    each = lambda low, high: draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))
    groups = draw(st.integers(1, 3))
    kernel, stride, dilation, padding = each(1, 3), each(1, 2), each(1, 2), each(0, 2)
    space = [draw(st.integers(max(1, d * (k - 1) + 1 - 2 * p), 5)) for k, d, p in zip(kernel, dilation, padding)]
    output_padding = [min(s, d) - 1 for s, d in zip(stride, dilation)]
    return {
        "batch": draw(st.integers(1, 2)),
        "per_group": (draw(st.integers(1, 2)), draw(st.integers(1, 2))),
        "groups": groups,
        "space": space,
        "kernel": kernel,
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "output_padding": output_padding,
    }


def tensors(s, *, transposed):
    c, o = (side * s["groups"] for side in s["per_group"])
    x = torch.randn(s["batch"], c, *s["space"], dtype=torch.float64, requires_grad=True)
    sides = (c, o // s["groups"]) if transposed else (o, c // s["groups"])
    weight = torch.randn(*sides, *s["kernel"], dtype=torch.float64, requires_grad=True)
    return x, weight, torch.randn(o, dtype=torch.float64, requires_grad=True)


def naive(tally, s, x, weight, *, transposed):
    x, weight = x.detach().numpy(), weight.detach().numpy()
    if transposed:
        return tally.conv_transpose(
            x, weight, s["stride"], s["padding"], s["output_padding"], s["dilation"], s["groups"]
        )
    return tally.conv(x, weight, s["stride"], s["padding"], s["dilation"], s["groups"])


def run(s, x, weight, bias, *, transposed):
    zeros = [0] * len(s["kernel"])
    return torch.convolution(x, weight, bias, s["stride"], s["padding"], s["dilation"], transposed,
                             s["output_padding"] if transposed else zeros, s["groups"])  # fmt: skip


@few
@given(settings_of_a_convolution(), st.booleans(), st.booleans())
def test_a_convolution_counts_every_scalar_product(s, transposed, biased):
    x, weight, bias = tensors(s, transposed=transposed)
    tally = Tally()
    try:
        result = run(s, x, weight, bias if biased else None, transposed=transposed)
    except RuntimeError:  # a transposed convolution whose padding eats its whole output
        assert transposed
        reject()
    expected = naive(tally, s, x, weight, transposed=transposed)

    made = cost(call(lambda: run(s, x, weight, bias if biased else None, transposed=transposed), "aten.convolution"))

    shift = bias.detach().numpy().reshape(-1, *[1] * len(s["kernel"])) if biased else 0
    assert np.allclose(result.detach(), expected + shift)
    assert made.macs == tally.products
    assert made.flops == 2 * tally.products + biased * result.numel()


@few
@given(settings_of_a_convolution(), st.booleans(), st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_its_backward_counts_the_gradients_that_are_asked_for(s, transposed, wanted):
    """Each product of the forward gives one product to the input's gradient and one to the weight's."""
    x, weight, bias = tensors(s, transposed=transposed)
    for needed, leaf in zip(wanted, (x, weight, bias)):
        leaf.requires_grad_(needed)
    try:
        result = run(s, x, weight, bias, transposed=transposed)
    except RuntimeError:
        assert transposed
        reject()
    assume(any(wanted))
    tally = Tally()
    naive(tally, s, x, weight, transposed=transposed)

    made = call(lambda: result.backward(torch.ones_like(result)), "aten.convolution_backward")

    assert made.args["output_mask"] == wanted
    assert cost(made).macs == tally.products * (wanted[0] + wanted[1])
    assert cost(made).flops == 2 * cost(made).macs + wanted[2] * result.numel()


def test_a_depthwise_train_step_is_three_times_its_forward():
    layer = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
    x = torch.randn(2, 8, 6, 6, requires_grad=True)
    once = 2 * 8 * 6 * 6 * 3 * 3

    made = call(lambda: layer(x).sum().backward(), "aten.convolution_backward")

    assert cost(call(lambda: layer(x), "aten.convolution")).macs == once
    assert cost(made).macs == 2 * once


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_same_padding_with_an_even_kernel():
    """3 channels to 16 with a 4x4 kernel on 20x20 pixels, which stay 20x20."""
    x, weight = torch.randn(1, 3, 20, 20), torch.randn(16, 3, 4, 4)
    with torch.inference_mode():
        whole = call(lambda: F.conv2d(x, weight, padding="same"), "aten.conv2d")

    assert cost(whole).macs == 20 * 20 * 16 * 3 * 16 == 307_200


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv3d"])
def test_an_undecomposed_convolution_costs_the_same(name):
    rank = int(name[4])
    x, weight, bias = torch.randn(2, 3, *[5] * rank), torch.randn(4, 3, *[2] * rank), torch.randn(4)
    with torch.inference_mode():
        whole = call(lambda: getattr(F, name)(x, weight, bias), f"aten.{name}")
        back = call(
            lambda: getattr(F, f"conv_transpose{name[4:]}")(x, weight.transpose(0, 1)), f"aten.conv_transpose{name[4:]}"
        )

    assert cost(whole).macs == 2 * 4 * 4**rank * 3 * 2**rank
    assert cost(whole).flops == 2 * cost(whole).macs + 2 * 4 * 4**rank
    assert cost(back).macs == 2 * 3 * 5**rank * 4 * 2**rank


def test_an_unbatched_convolution_counts_like_a_batch_of_one():
    x, weight = torch.randn(3, 6, 6), torch.randn(4, 3, 3, 3)

    assert cost(call(lambda: F.conv2d(x, weight), "aten.convolution")).macs == 4 * 4 * 4 * 27


def test_time_first_convolution():
    x, weight, bias = torch.randn(7, 2, 3), torch.randn(4, 3, 5), torch.randn(5)
    steps = 7 + 2 * 1 - 4 + 1

    made = cost(call(lambda: torch.conv_tbc(x, weight, bias, 1), "aten.conv_tbc"))

    assert made.macs == steps * 2 * 5 * 4 * 3
    assert made.flops == 2 * made.macs + steps * 2 * 5


X, W, Y, WT, YT = (2, 6, 8, 8), (4, 3, 3, 3), (2, 4, 6, 6), (6, 2, 3, 3), (2, 4, 10, 10)
PLAIN = 2 * 4 * 6 * 6 * 27
TRANSPOSED = 2 * 6 * 8 * 8 * 18
SPACE = {"padding": (0, 0), "stride": (1, 1), "dilation": (1, 1)}
GROUPED = {**SPACE, "groups": 2}
FLAGS = {"benchmark": False, "deterministic": False}


@pytest.mark.parametrize(
    ("made", "macs", "beside"),
    [
        (handmade("aten.cudnn_convolution", Y, self=X, weight=W, **GROUPED, **FLAGS, allow_tf32=True), PLAIN, 0),
        (handmade("aten.cudnn_convolution_relu", Y, self=X, weight=W, bias=(4,), **GROUPED), PLAIN, 2),
        (handmade("aten.cudnn_convolution_add_relu", Y, self=X, weight=W, z=Y, alpha=1, bias=(4,), **GROUPED), PLAIN, 3),
        (handmade("aten.miopen_convolution", Y, self=X, weight=W, bias=(4,), **GROUPED, **FLAGS), PLAIN, 1),
        (handmade("aten.miopen_depthwise_convolution", Y, self=X, weight=W, bias=None, **GROUPED, **FLAGS), PLAIN, 0),
        (handmade("aten.mkldnn_convolution", Y, self=X, weight=W, bias=(4,), **GROUPED), PLAIN, 1),
        (handmade("aten._mps_convolution", Y, self=X, weight=W, bias=None, **GROUPED), PLAIN, 0),
        (handmade("aten._nnpack_spatial_convolution", Y, input=X, weight=W, bias=None, padding=(0, 0)), PLAIN, 0),
        (
            handmade("aten._slow_conv2d_forward", Y, self=X, weight=(4, 27), kernel_size=(3, 3), bias=(4,),
                     stride=(1, 1), padding=(0, 0)),
            PLAIN, 1,
        ),
        (handmade("aten.thnn_conv2d", Y, self=X, weight=W, kernel_size=(3, 3), bias=(4,)), PLAIN, 1),
        (handmade("aten.slow_conv_dilated2d", Y, self=X, weight=W, kernel_size=(3, 3)), PLAIN, 0),
        (handmade("aten._conv_depthwise2d", Y, self=X, weight=W, kernel_size=(3, 3), bias=None, **SPACE), PLAIN, 0),
        (
            handmade("mkldnn._convolution_pointwise", Y, X=X, W=W, B=(4,), **GROUPED, attr="relu", scalars=(),
                     algorithm=None),
            PLAIN, 2,
        ),
        (
            handmade("mkldnn._convolution_pointwise", Y, overload="binary", X=X, other=Y, W=W, B=None, **GROUPED,
                     binary_attr="add", alpha=1, unary_attr="relu", unary_scalars=(), unary_algorithm=None),
            PLAIN, 2,
        ),
        (
            handmade("mkldnn._convolution_transpose_pointwise", YT, X=X, W=WT, B=None, output_padding=(0, 0), **GROUPED,
                     attr="none", scalars=(), algorithm=None),
            TRANSPOSED, 0,
        ),
        (
            handmade("aten.cudnn_convolution_transpose", YT, self=X, weight=WT, output_padding=(0, 0), **GROUPED, **FLAGS,
                     allow_tf32=True),
            TRANSPOSED, 0,
        ),
        (
            handmade("aten.miopen_convolution_transpose", YT, self=X, weight=WT, bias=(4,), output_padding=(0, 0),
                     **GROUPED, **FLAGS),
            TRANSPOSED, 1,
        ),
        (handmade("aten.slow_conv_transpose2d", YT, self=X, weight=WT, kernel_size=(3, 3)), TRANSPOSED, 0),
        (handmade("aten._mps_convolution_transpose", YT, self=X, weight=WT, output_padding=(0, 0), **GROUPED), TRANSPOSED, 0),
        (
            handmade("aten.convolution_overrideable", YT, input=X, weight=WT, bias=None, transposed=True,
                     output_padding=(0, 0), **GROUPED),
            TRANSPOSED, 0,
        ),
    ],
)  # fmt: skip
def test_convolutions_of_other_backends(made, macs, beside):
    """`beside` is the number of pointwise steps fused with the products, one FLOP an output element each."""
    assert cost(made).macs == macs
    assert cost(made).flops == 2 * macs + beside * made.output.numel


@pytest.mark.parametrize(
    ("made", "macs", "flops"),
    [
        (
            handmade("aten.convolution_backward_overrideable", X, grad_output=Y, input=X, weight=W, transposed=False,
                     output_padding=(0, 0), **GROUPED, output_mask=(True, True, True)),
            2 * PLAIN, 2 * 2 * PLAIN + 2 * 4 * 6 * 6,
        ),
        (
            handmade("aten._slow_conv2d_backward", X, overload="output_mask", grad_output=Y, self=X, weight=W,
                     kernel_size=(3, 3), stride=(1, 1), padding=(0, 0), output_mask=(True, False, False)),
            PLAIN, 2 * PLAIN,
        ),
        (
            handmade("aten.mps_convolution_backward", W, self=X, grad_output=Y, weight=W, **GROUPED,
                     output_mask=(False, True, False)),
            PLAIN, 2 * PLAIN,
        ),
        (
            handmade("aten.mps_convolution_transpose_backward", X, self=X, grad_output=YT, weight=WT,
                     output_padding=(0, 0), **GROUPED, output_mask=(True, True)),
            2 * TRANSPOSED, 4 * TRANSPOSED,
        ),
    ],
)  # fmt: skip
def test_backwards_of_other_backends(made, macs, flops):
    assert (cost(made).macs, cost(made).flops) == (macs, flops)


def test_a_complex_convolution_is_four_real_ones():
    made = handmade("aten.convolution", tensor((1, 2, 5), "complex64"), input=tensor((1, 3, 7), "complex64"),
                    weight=tensor((2, 3, 3), "complex64"), bias=None, stride=(1,), padding=(0,), dilation=(1,),
                    transposed=False, output_padding=(0,), groups=1)  # fmt: skip

    assert cost(made).macs == 4 * 2 * 5 * 9
