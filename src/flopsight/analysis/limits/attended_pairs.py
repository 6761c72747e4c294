"""Which share of the attention of a prompt a kernel has to do: pairs behind a causal mask and outside a window are left out.

A model may hand its attention a mask, and then all pairs are counted. How many keys a token attends to is seen in the step after
the prompt: in a layer with a sliding window, fewer than there are tokens before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...results.costs import OpRow
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import FORWARD
from .utilization import rows_of

APART = ("aten.bmm", "aten.baddbmm", "aten.matmul")
"""Products without weights of attention that is not one op."""


def is_attention(op: str) -> bool:
    """Whether an op is attention, or a product of attention that is taken apart."""
    return op in APART or "attention" in op


def needed_shares(prefill: Profile, step: Profile, tokens: int, prompt: int, keys: int) -> dict[str, float]:
    """By module, the share of its counted attention that prompts of `prompt` tokens need, `tokens` in all.

    `keys` are those that the token of `step`, the first after the prompt, is multiplied with in a layer without a window.
    """
    found = {}
    for node in prefill.walk():
        ours, later = (sum(_counted_dense(one)) for one in (node, step.nodes.get(node.path)))
        if not ours or not later:
            continue
        if prompt * later < ours:
            window = round(prompt * prompt * later / ours)
            found[node.path] = (window * (window + 1) / 2 + (prompt - window) * window) / prompt**2
        elif prompt * later > ours or ours > tokens * sum(p.numel for p in node.parameters):
            # otherwise these may be products with weights, as those of experts are
            multiplied_with = keys * ours / (prompt * later)
            found[node.path] = (prompt + 1) / 2 / multiplied_with
    return found


def _counted_dense(node: Node | None) -> Iterator[int]:
    """MACs of attention of which a causal kernel is not known to leave any out."""
    rows: list[OpRow] = list(rows_of(node, (FORWARD,))) if node is not None else []
    return (row.cost.macs for row in rows if is_attention(row.op) and not row.cost.skipped_macs)
