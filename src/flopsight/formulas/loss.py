"""Losses: one FLOP an element for the loss, one more if it is summed or averaged."""

from ..results.costs import Cost
from ..results.records import OpRecord
from .elementwise import elements
from .registry import aten, formula, traffic

LATTICE = 4
"""FLOPs of one cell of CTC's lattice: the logarithm of a sum of three, and the probability of the label."""


@formula(
    *aten("""
    mse_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy binary_cross_entropy_with_logits
    multi_margin_loss multilabel_margin_loss_forward
    """)
)
def elementwise_loss(call: OpRecord) -> Cost:
    """One FLOP an element of the prediction, and one more for the reduction."""
    reduced = call.args["reduction"] != 0
    return Cost(flops=(1 + reduced) * elements(call.tensor("self")))


@formula(
    *aten("""
    mse_loss_backward smooth_l1_loss_backward huber_loss_backward soft_margin_loss_backward
    binary_cross_entropy_backward multi_margin_loss_backward multilabel_margin_loss_backward
    """)
)
def elementwise_loss_backward(call: OpRecord) -> Cost:
    """One FLOP an element of the gradient."""
    return Cost(flops=elements(call.output))


@formula(*aten("nll_loss_forward nll_loss2d_forward nll_loss nll_loss2d"))
def nll_loss(call: OpRecord) -> Cost:
    """One FLOP a target: its score is picked and summed; no other score is read."""
    scores, targets = call.tensor("self"), call.tensor("target").numel
    return Cost(flops=targets, bytes=traffic(call) - scores.nbytes + targets * scores.itemsize)


@formula(*aten("nll_loss_backward nll_loss2d_backward"))
def nll_loss_backward(call: OpRecord) -> Cost:
    """One FLOP a target, into a gradient that is written whole; the scores are not read."""
    return Cost(flops=call.tensor("target").numel, bytes=traffic(call) - call.tensor("self").nbytes)


@formula(*aten("_ctc_loss _cudnn_ctc_loss miopen_ctc_loss"))
def ctc_loss(call: OpRecord) -> Cost:
    """A lattice of time steps by labels with blanks between them; the vendors' kernels form the gradient as well."""
    scores = call.tensor("log_probs")
    if call.op == "aten._ctc_loss":
        return Cost(flops=LATTICE * call.outputs[1].numel)
    lengths = call.args["target_lengths"]
    if not isinstance(lengths, tuple):
        raise ValueError("the lengths of the targets are not known")  # noqa: TRY004
    cells = scores.shape[0] * sum(2 * int(length) + 1 for length in lengths)
    return Cost(flops=2 * LATTICE * cells + scores.numel)


@formula("aten._ctc_loss_backward")
def ctc_loss_backward(call: OpRecord) -> Cost:
    """The lattice from the other end, and the gradient of each score."""
    return Cost(flops=LATTICE * call.tensor("log_alpha").numel + call.tensor("log_probs").numel)
