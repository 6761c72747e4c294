"""Normalisations and softmax, forward and backward; a norm's backward takes twice its forward's FLOPs."""

from math import prod

from ..results.costs import Cost
from ..results.records import OpRecord
from .elementwise import elements
from .registry import aten, formula

TRAINING, EVALUATION, NORM = 5, 2, 5
"""FLOPs an element: with statistics of the batch (mean 1, variance 2, scale and shift 2), with stored ones, others."""
SOFTMAX, SOFTMAX_BACKWARD = 5, 4
"""Maximum, difference, exponential, sum, quotient; backward a product, a sum, a difference, a product."""


def batch_norm_rate(call: OpRecord) -> int:
    """Which of the two rates holds for a batch norm."""
    training = call.args.get("training", call.args.get("train", call.args.get("use_input_stats")))
    return EVALUATION if training is False else TRAINING


def passes(call: OpRecord) -> int:
    """Two for a backward, which takes twice its forward's FLOPs."""
    return 2 if "backward" in call.op else 1


@formula(
    *aten("""
    native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional cudnn_batch_norm miopen_batch_norm
    batch_norm _batch_norm_impl_index instance_norm _batch_norm_with_update _batch_norm_with_update_functional
    native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward _batch_norm_impl_index_backward
    batch_norm_backward
    """)
)
def batch_norm(call: OpRecord) -> Cost:
    """Five FLOPs an element in training, two with stored statistics; twice that backward."""
    return Cost(flops=passes(call) * batch_norm_rate(call) * elements(call.tensor("input")))


@formula(*aten("_native_batch_norm_legit_no_training _batch_norm_no_update batch_norm_elemt quantized_batch_norm"))
def batch_norm_stored(call: OpRecord) -> Cost:
    """Two FLOPs an element: scale and shift."""
    return Cost(flops=EVALUATION * elements(call.tensor("input")))


@formula(
    *aten("""
    batch_norm_stats batch_norm_update_stats batch_norm_gather_stats batch_norm_gather_stats_with_counts
    """)
)
def batch_norm_stats(call: OpRecord) -> Cost:
    """Three FLOPs an element: mean and variance, also of one mean and one deviation from each rank."""
    return Cost(flops=(TRAINING - EVALUATION) * elements(call.tensor("mean" if "mean" in call.args else "input")))


@formula(*aten("batch_norm_backward_reduce batch_norm_backward_elemt"))
def batch_norm_backward_half(call: OpRecord) -> Cost:
    """Half of the backward each: the sums that ranks exchange, then the gradient."""
    return Cost(flops=TRAINING * elements(call.tensor("input")))


@formula(*aten("native_layer_norm layer_norm native_group_norm group_norm"))
@formula(*aten("native_layer_norm_backward native_group_norm_backward"))
def norm(call: OpRecord) -> Cost:
    """Five FLOPs an element, ten backward."""
    return Cost(flops=passes(call) * NORM * elements(call.tensor("input")))


@formula(*aten("rms_norm _fused_rms_norm _fused_rms_norm_backward"))
def rms_norm(call: OpRecord) -> Cost:
    """Square, mean, scale, and the weight if there is one; and for each row the shift by epsilon and the root."""
    x = call.tensor("input")
    rows = x.numel // max(prod(call.args["normalized_shape"]), 1)
    weighed = call.args.get("weight") is not None
    return Cost(flops=passes(call) * ((3 + weighed) * elements(x) + 2 * rows))


@formula(*aten("_weight_norm_interface _weight_norm _weight_norm_interface_backward"))
def weight_norm(call: OpRecord) -> Cost:
    """The norm of each slice, its quotient with the magnitude, and the scaling; twice that backward."""
    v, g = ("v", "g") if "v" in call.args else ("saved_v", "saved_g")
    return Cost(flops=passes(call) * (2 * elements(call.tensor(v)) + call.tensor(g).numel))


@formula(
    *aten("""
    _softmax _log_softmax _safe_softmax softmax log_softmax special_softmax special_log_softmax
    _nested_tensor_softmax_with_shape _masked_softmax
    """)
)
def softmax(call: OpRecord) -> Cost:
    """Five FLOPs an element, and one more for a mask that is added to what goes in."""
    return Cost(flops=(SOFTMAX + ("masked" in call.op)) * elements(call.output))


@formula(*aten("_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward"))
def softmax_backward(call: OpRecord) -> Cost:
    """Four FLOPs an element."""
    return Cost(flops=SOFTMAX_BACKWARD * elements(call.output))
