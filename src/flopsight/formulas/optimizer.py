"""Optimizer steps, fused and over lists of tensors; they cost what their unfused steps do, element by element."""

from ..results.costs import Cost
from ..results.op_kinds import FILLED_TOGETHER
from ..results.records import OpRecord, TensorMeta
from .elementwise import elements
from .registry import aten, formula, free, traffic


def size(metas: tuple[TensorMeta, ...]) -> int:
    """Bytes of a list of tensors."""
    return sum(meta.nbytes for meta in metas)


def listed(call: OpRecord) -> int:
    """Bytes of an op on lists: everything is read, and in place the first list is written."""
    return traffic(call) + (size(call.tensors("self")) if call.op.endswith("_") else 0)


@formula(
    *aten("""
    _foreach_abs _foreach_acos _foreach_add _foreach_addcdiv _foreach_addcmul _foreach_asin _foreach_atan
    _foreach_ceil _foreach_clamp_max _foreach_clamp_min _foreach_cos _foreach_cosh _foreach_div _foreach_erf
    _foreach_erfc _foreach_exp _foreach_expm1 _foreach_floor _foreach_frac _foreach_lerp _foreach_lgamma _foreach_log
    _foreach_log10 _foreach_log1p _foreach_log2 _foreach_maximum _foreach_minimum _foreach_mul _foreach_neg
    _foreach_pow _foreach_reciprocal _foreach_round _foreach_rsqrt _foreach_sigmoid _foreach_sign _foreach_sin
    _foreach_sinh _foreach_sqrt _foreach_sub _foreach_tan _foreach_tanh _foreach_trunc
    _foreach_norm _foreach_max _foreach_powsum
    """)
)
def foreach(call: OpRecord) -> Cost:
    """One FLOP an element of each tensor, pointwise or reduced."""
    metas = call.tensors("self") or call.tensors("exponent")
    return Cost(flops=elements(*metas), bytes=listed(call))


@free(*FILLED_TOGETHER)
def foreach_written(call: OpRecord) -> Cost:
    """The first list is written, others are read."""
    read = sum(size(call.tensors(name)) for name in call.args if name != "self")
    return Cost(bytes=read + size(call.tensors("self")))


@formula("aten._amp_foreach_non_finite_check_and_unscale")
def unscale(call: OpRecord) -> Cost:
    """Each gradient is divided by the loss scale; looking for infinities is not arithmetic."""
    return Cost(flops=elements(*call.tensors("self")), bytes=listed(call))


def stepped(call: OpRecord, rate: int, written: str) -> Cost:
    """A step of `rate` FLOPs a parameter, plus what its options add; the named lists are written."""
    rate += bool(call.args["maximize"]) + (call.args.get("grad_scale") is not None)
    rewritten = 0 if call.outputs else sum(size(call.tensors(name)) for name in written.split())
    return Cost(flops=rate * elements(*call.tensors("self")), bytes=traffic(call) + rewritten)


@formula(*aten("_fused_adam _fused_adamw"))
def adam(call: OpRecord) -> Cost:
    """7 an element: lerp of the mean; scaling and addcmul of the square; its root, quotient, epsilon; addcdiv.

    One more each for weight decay, for the running maximum of amsgrad, for maximising and for a loss scale.
    """
    rate = 7 + bool(call.args["weight_decay"]) + bool(call.args["amsgrad"])
    return stepped(call, rate, "self exp_avgs exp_avg_sqs max_exp_avg_sqs")


@formula("aten._fused_sgd")
def sgd(call: OpRecord) -> Cost:
    """1 an element: the step. With momentum 2 more, once the buffer exists, and 1 more for Nesterov's look ahead.

    One more each for weight decay, for maximising and for a loss scale.
    """
    moving = bool(call.args["momentum"])
    buffered = 2 * (moving and not call.args["is_first_step"])
    rate = 1 + buffered + (moving and call.args["nesterov"]) + bool(call.args["weight_decay"])
    return stepped(call, rate, "self momentum_buffer_list")


@formula("aten._fused_adagrad")
def adagrad(call: OpRecord) -> Cost:
    """4 an element: addcmul of the square, its root, epsilon, addcdiv; one more each for the options of Adam."""
    return stepped(call, 4 + bool(call.args["weight_decay"]), "self state_sums")
