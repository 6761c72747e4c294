"""Pointwise ops, reductions, scans, dropout: one FLOP an element; and what the kind of an op says about its cost."""

from ..results.costs import FREE, Cost
from ..results.op_kinds import POINTWISE, POINTWISE_WITH_NOISE
from ..results.records import OpRecord, TensorMeta
from .registry import aten, for_kind, formula, named, traffic


def elements(*metas: TensorMeta) -> int:
    """Elements on which floating-point arithmetic is done; boolean and integer ones are none."""
    return sum(meta.numel for meta in metas if meta.is_real_number)


def stored(call: OpRecord, *metas: TensorMeta) -> int:
    """The same, for the numbers that a sparse tensor stores if the call has one."""
    nnz = call.facts.get("nnz")
    return elements(*metas) if nnz is None else int(nnz) * any(meta.is_real_number for meta in metas)


@for_kind("pointwise")
@formula(
    *POINTWISE,
    *aten("""
    abs copysign floor_divide gcd lcm threshold xlogy glu polar linalg_cross
    square absolute negative subtract multiply divide
    true_divide fix clip prelu
    add.Scalar_out sub.Scalar_out mul.Scalar_out div.Scalar_out div.Scalar_mode_out remainder.Scalar_Tensor_out relu.out
    hardshrink.out softshrink.out
    elu_backward gelu_backward glu_backward hardshrink_backward hardsigmoid_backward hardswish_backward
    hardtanh_backward leaky_relu_backward log_sigmoid_backward mish_backward silu_backward sigmoid_backward
    softplus_backward softshrink_backward tanh_backward threshold_backward logit_backward _prelu_kernel_backward
    rrelu_with_noise_backward infinitely_differentiable_gelu_backward glu_jvp glu_backward_jvp
    native_dropout_backward _masked_scale _standard_gamma_grad _dirichlet_grad outer ger kron _segment_reduce_backward
    dequantize fake_quantize_per_channel_affine_cachemask_backward fake_quantize_per_tensor_affine_cachemask_backward
    _fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine
    _fake_quantize_learnable_per_channel_affine_backward _fake_quantize_learnable_per_tensor_affine_backward
    fft_fftfreq fft_rfftfreq hann_window hamming_window bartlett_window blackman_window kaiser_window
    """),
)
def pointwise(call: OpRecord) -> Cost:
    """One FLOP an output element."""
    return Cost(flops=stored(call, *call.outputs))


@formula(
    *POINTWISE_WITH_NOISE,
    *aten("""
    log_sigmoid_forward rrelu_with_noise fake_quantize_per_channel_affine_cachemask
    fake_quantize_per_tensor_affine_cachemask _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    _fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional _amp_update_scale
    """),
)
def pointwise_first(call: OpRecord) -> Cost:
    """One FLOP an element of the first output; the others are what the kernel keeps for itself."""
    return Cost(flops=elements(call.output))


@formula(*aten("addr _add_relu"), *named("quantized", "add add_relu mul mul_relu"))
def pointwise_twice(call: OpRecord) -> Cost:
    """Two pointwise ops in one: the outer product and the sum, the sum and the ReLU."""
    return Cost(flops=2 * elements(call.output))


@for_kind("reduction")
@formula(
    *aten("""
    sum mean prod nansum nanmean logsumexp amax amin aminmax _aminmax norm native_norm linalg_vector_norm
    linalg__powsum frobenius_norm var std var_mean std_mean max.default max.dim min.default min.dim
    _sparse_sum _sparse_csr_sum _sparse_csr_prod cumsum cumprod logcumsumexp _logcumsumexp cummax cummin
    _coalesce segment_reduce
    """),
)
def reduction(call: OpRecord) -> Cost:
    """One FLOP an input element, if the result is a number; a running sum adds as often."""
    first = call.inputs[0]
    return Cost(flops=stored(call, first)) if call.outputs and call.output.is_real_number else FREE


@formula(*aten("_cummax_helper _cummin_helper"))
def running_extreme(call: OpRecord) -> Cost:
    """One FLOP an input element; the results are handed in."""
    return Cost(flops=elements(call.tensor("self")))


@formula("aten.trace")
def trace(call: OpRecord) -> Cost:
    """One FLOP an element of the diagonal."""
    return Cost(flops=min(call.shape("self")) if call.output.is_real_number else 0)


@formula(*aten("dist renorm"))
def normed(call: OpRecord) -> Cost:
    """The difference, then its norm; or the norms of slices, then their scaling."""
    return Cost(flops=2 * elements(call.tensor("self")))


@formula(*aten("native_dropout _fused_dropout dropout"))
def dropout(call: OpRecord) -> Cost:
    """Two FLOPs an element if it is active: the mask is scaled, then applied, as the unfused op does."""
    active = call.args.get("train", True) is not False and call.args["p"] > 0
    return Cost(flops=2 * elements(call.output)) if active else FREE


def put_in_place(call: OpRecord, source: int, touches: int = 3) -> int:
    """Bytes of adding `source` elements into a tensor, each read, its place read and written.

    In place only they are touched; else the whole tensor is copied first.
    """
    if not call.op.endswith("_"):
        return traffic(call)
    index = sum(meta.nbytes for name in ("index", "indices") for meta in call.tensors(name))
    return index + touches * source * call.output.itemsize


@formula(*aten("scatter_add scatter_reduce scatter.reduce scatter.value_reduce"))
def scatter_add(call: OpRecord) -> Cost:
    """One FLOP an index: each adds one source element."""
    source = call.tensor("index").numel
    return Cost(flops=source if call.output.is_real_number else 0, bytes=put_in_place(call, source))


@formula(*aten("index_add index_reduce"))
def index_add(call: OpRecord) -> Cost:
    """One FLOP a source element."""
    source = call.tensor("source")
    return Cost(flops=elements(source), bytes=put_in_place(call, source.numel))


@formula(*aten("index_put _index_put_impl _unsafe_index_put _unsafe_masked_index_put_accumulate put"))
def index_put(call: OpRecord) -> Cost:
    """One FLOP a value if values are added; storing them costs nothing."""
    values = call.tensor("source" if "source" in call.args else "values")
    adds = bool(call.args.get("accumulate", True))
    return Cost(flops=elements(values) if adds else 0, bytes=put_in_place(call, values.numel, 2 + adds))


@for_kind("view")
@for_kind("copy")
@for_kind("random")
def no_work(_: OpRecord) -> Cost:
    """No arithmetic: zero is the answer, though a copy moves bytes."""
    return FREE
