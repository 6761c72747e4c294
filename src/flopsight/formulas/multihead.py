"""Multi-head attention as one op: what nn.MultiheadAttention runs in eval mode where no gradient is needed.

It costs what the module costs unfused: the projection into queries, keys and values with its bias; attention, which scales
the queries, and the keys too where no weights are asked for; the mean of the weights over the heads where it is asked for;
the projection out with its bias. Bytes are those of the three parts, each reading its operands and writing its result.
"""

from ..results.costs import Cost
from ..results.records import OpRecord
from .attention import SOFTMAX
from .registry import formula


@formula("aten._native_multi_head_attention")
def multi_head_attention(call: OpRecord) -> Cost:
    """Projections, and the scores of every pair of tokens in a sequence."""
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
