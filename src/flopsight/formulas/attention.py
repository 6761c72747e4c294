"""Scaled dot-product attention, fused or not, dense, ragged or by blocks, forward and backward.

Attention is counted dense; `skipped_macs` holds what a kernel that knows the mask (causal, a window, blocks) leaves out.
The forward costs what torch's unfused path does: its two products; scaling of the queries and of the keys, one FLOP
an element; and for each score 5 of softmax, 1 if a mask or a bias is added, 2 of dropout.
The fused backward forms the scores anew (`recompute_macs`, and 5 of softmax again), then does what the unfused
backward does: four products; for each score 4 of softmax's backward and 1 of dropout's; scaling of both gradients;
and if several queries share a key, the sums over them.
Bytes are those of queries, keys, values, output (and their gradients) and mask.
"""

from math import prod
from typing import NamedTuple

from ..results.costs import Cost
from ..results.records import OpRecord, Shape
from .elementwise import elements
from .registry import aten, formula, named

SOFTMAX, SOFTMAX_BACKWARD, DROPOUT, DROPOUT_BACKWARD = 5, 4, 2, 1
BOTTOM_RIGHT = 2
"""The efficient kernel's `custom_mask_type` for a causal mask that ends in the bottom right corner."""
MASKS = ("attn_mask", "attn_bias", "bias")
PACKED = ("cum_seq_q", "cu_seqlens_q", "cu_seq_q")
HEADS_LAST = ("aten._flash_attention", "aten._efficient_attention", "torch_attn.")
"""Kernels that take [batch, sequence, head, feature], or [sequence, head, feature] for packed sequences."""
TAKES_PACKED = (*HEADS_LAST, "aten._cudnn_attention")
LAST_MEETS_LAST = ("aten._flash_attention", "torch_attn.")
"""Kernels whose causal mask lets the last query see all keys; elsewhere the first query sees the first key only."""
TENSORS = ("query", "key", "value", "out", "grad_out", "grad_out_", *MASKS)


class Scores(NamedTuple):
    """The score matrices of one call, all heads and sequences together."""

    pairs: int
    """Query-key pairs."""
    hidden: int
    """Those of them that the mask hides."""
    keys: int
    """Keys, counted again for each query head that shares them."""
    shared: bool
    """Whether several query heads share a key head."""


def ramp(n: int, start: int, top: int) -> int:
    """The sum of `start`, `start + 1`, ... over n terms, each held between 0 and `top`."""

    def below(x: int) -> int:
        x = max(x, 0)
        return x * (x - 1) // 2 if x <= top + 1 else top * (top + 1) // 2 + (x - 1 - top) * top

    return below(start + n) - below(start)


def hidden_pairs(s_q: int, s_k: int, *, left: int | None, right: int | None, shift: int = 0) -> int:
    """Pairs outside the band in which query i sees keys i + shift - left to i + shift + right; None means no bound."""
    upper = s_q * s_k if right is None else ramp(s_q, shift + right + 1, s_k)
    lower = 0 if left is None else ramp(s_q, shift - left, s_k)
    return s_q * s_k - (upper - lower)


def _band(call: OpRecord) -> tuple[int | None, int | None]:
    """How far a query sees to the left and to the right of its own place."""
    args = call.args
    window = args.get("window_size")
    sides = window if isinstance(window, tuple) else (args.get("window_size_left"), args.get("window_size_right"))
    left, right = (None if side is None or side < 0 else int(side) for side in sides)
    if args.get("is_causal") or args.get("custom_mask_type"):
        right = 0
        left = window - 1 if isinstance(window, int) and window > 0 else left
    return left, right


def _lengths(call: OpRecord) -> list[tuple[int, int]] | None:
    """Query and key lengths of the sequences that are packed into one; None if none are."""
    if "lengths_q" in call.facts:
        queries = call.facts["lengths_q"]
        return list(zip(queries, call.facts.get("lengths_k", queries), strict=True))
    if call.op.startswith(TAKES_PACKED) and any(call.args.get(name) is not None for name in PACKED):
        raise ValueError("the lengths of the packed sequences are not known")
    return None


def _heads_first(shape: Shape) -> Shape:
    *batch, sequence, heads, features = shape
    return (*batch, heads, sequence, features)


def _scores(call: OpRecord) -> Scores:
    """Count the score matrices; packed sequences attend only within themselves."""
    query, key = call.shape("query"), call.shape("key")
    lengths = _lengths(call)
    if call.op.startswith(HEADS_LAST) or (lengths and len(query) == 3):
        query, key = _heads_first(query), _heads_first(key)
    heads, key_heads = (query[-3], key[-3]) if len(query) > 2 else (1, 1)
    batch = 1 if lengths else prod(query[:-3])
    left, right = _band(call)
    from_the_end = call.op.startswith(LAST_MEETS_LAST) or call.args.get("custom_mask_type") == BOTTOM_RIGHT
    pairs = hidden = keys = 0
    for s_q, s_k in lengths or [(query[-2], key[-2])]:
        pairs += s_q * s_k
        hidden += hidden_pairs(s_q, s_k, left=left, right=right, shift=s_k - s_q if from_the_end else 0)
        keys += s_k
    times = batch * heads
    return Scores(times * pairs, times * hidden, times * keys, key_heads != heads)


def _bytes(call: OpRecord, results: int) -> int:
    return sum(meta.nbytes for name in TENSORS for meta in call.tensors(name)) + sum(
        meta.nbytes for meta in call.outputs[:results]
    )


def _forward(call: OpRecord, scores: Scores) -> Cost:
    query, d_v = call.tensor("query"), call.shape("value")[-1]
    d = query.shape[-1]
    causal = call.args.get("is_causal") or call.args.get("custom_mask_type")
    masked = bool(causal) or any(call.args.get(name) is not None for name in MASKS)
    dropped = call.args.get("dropout_p", 0) > 0
    each = SOFTMAX + masked + DROPOUT * dropped
    macs = (d + d_v) * scores.pairs
    flops = 2 * macs + each * scores.pairs + query.numel + scores.keys * d
    return Cost(macs, flops, _bytes(call, 1), (d + d_v) * scores.hidden)


def _backward(call: OpRecord, scores: Scores) -> Cost:
    query, d_v = call.tensor("query"), call.shape("value")[-1]
    d = query.shape[-1]
    dropped = call.args.get("dropout_p", 0) > 0
    each = SOFTMAX + SOFTMAX_BACKWARD + DROPOUT_BACKWARD * dropped
    macs = (3 * d + 2 * d_v) * scores.pairs
    summed = scores.keys * (d + d_v) if scores.shared else 0
    flops = 2 * macs + each * scores.pairs + query.numel + scores.keys * d + summed
    return Cost(macs, flops, _bytes(call, 3), (3 * d + 2 * d_v) * scores.hidden, d * scores.pairs)


@formula(
    *aten("""
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
    _scaled_dot_product_fused_attention_overrideable
    _flash_attention_forward _flash_attention_forward_no_dropout_inplace _efficient_attention_forward
    _cudnn_attention_forward _cudnn_attention_forward_no_dropout_inplace
    """),
    *named("torch_attn", "_varlen_attn _varlen_attn_out"),
)
def attention(call: OpRecord) -> Cost:
    """Scores, softmax, values: one kernel."""
    return _forward(call, _scores(call))


@formula(*aten("scaled_dot_product_attention _scaled_dot_product_attention_math"))
@formula("aten._scaled_dot_product_attention_math_for_mps")
def unfused_attention(call: OpRecord) -> Cost:
    """The same as a composite, whose leading dimensions may be broadcast and whose heads are shared only on request."""
    scores = _scores(call)
    lead = call.output.shape[:-2]
    own = prod(call.shape("query")[:-2])
    times = prod(lead) // own if own else 0
    keys = scores.keys if call.args.get("enable_gqa") else prod(call.shape("key")[:-1])
    return _forward(call, Scores(scores.pairs * times, scores.hidden * times, keys, scores.shared))


@formula(
    *aten("""
    _scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu_backward
    _scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_fused_attention_overrideable_backward
    _flash_attention_backward _efficient_attention_backward _cudnn_attention_backward
    """),
    "torch_attn._varlen_attn_backward",
)
def attention_backward(call: OpRecord) -> Cost:
    """The scores anew, then gradients of values, scores, queries and keys: five products for the forward's two."""
    return _backward(call, _scores(call))


@formula("higher_order.flex_attention", "higher_order.flex_attention_backward")
def flex_attention(call: OpRecord) -> Cost:
    """Attention by blocks, counted dense; the blocks that the mask leaves out are skipped."""
    scores = _scores(call)
    scores = scores._replace(hidden=scores.pairs - round(scores.pairs * call.facts.get("density", 1)))
    return _backward(call, scores) if "backward" in call.op else _forward(call, scores)


@formula("aten._transform_bias_rescale_qkv")
def transform_bias_rescale(call: OpRecord) -> Cost:
    """A bias for queries, keys and values; attention in one op scales queries and keys, and so counts this one.

    torch scales the queries alone, by a factor that stands for both.
    """
    queries, keys = call.outputs[:2]
    return Cost(flops=elements(*call.outputs) + elements(queries, keys))


@formula("aten._native_multi_head_attention")
def multi_head_attention(call: OpRecord) -> Cost:
    """Projections, and the scores of every pair of tokens in a sequence: nn.MultiheadAttention in eval mode, as one op.

    It costs what the module costs unfused: the projection into queries, keys and values with its bias; attention, which
    scales the queries, and the keys too if no weights are asked for; the mean of the weights over the heads if it is asked
    for; the projection out with its bias. Bytes are those of the three parts, each reading its operands and writing its
    result.
    """
    query, heads, width = call.tensor("query"), int(call.args["num_head"]), int(call.args["embed_dim"])
    lengths = call.facts.get("lengths")
    if lengths is None:
        batch, length = query.shape[:2]
        lengths = (length,) * batch
    # The projections skip the padding of nested sequences, the scores do not: the kernel pads to the longest.
    tokens, pairs = sum(lengths), len(lengths) * max(lengths, default=0) ** 2
    scores, weights = heads * pairs, bool(call.args.get("need_weights", True))
    averaged = weights and bool(call.args.get("average_attn_weights", True))
    masked = call.args.get("mask") is not None
    macs = tokens * width * (3 * width + width) + 2 * width * pairs
    biases, scaling = 4 * tokens * width, tokens * width * (1 if weights else 2)
    flops = 2 * macs + biases + scaling + scores * (SOFTMAX + masked + averaged)
    row = tokens * width * query.itemsize
    held = sum(meta.nbytes for name in call.args if name.startswith(("qkv_", "proj_")) for meta in call.tensors(name))
    mask = sum(meta.nbytes for meta in call.tensors("mask"))
    written = sum(meta.nbytes for meta in call.outputs[1:])
    return Cost(macs, flops, (row + 3 * row) + (3 * row + row) + (row + row) + held + mask + written)
