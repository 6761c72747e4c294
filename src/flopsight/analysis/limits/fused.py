"""Kernels of a model that is compiled and served: chains of pointwise work in one kernel each, no wait for the host."""

from __future__ import annotations

from ...results.ceilings import Ceilings
from ...results.costs import OpRow
from ...results.profile import Profile
from ...results.records import BACKWARD, FORWARD, RECOMPUTE
from .predict import kernel_seconds
from .roofline import COLLECTIVES, row_roof
from .utilization import rows_of

MODEL = (FORWARD, BACKWARD, RECOMPUTE)
"""The phases in which the model itself works, not the optimizer."""
FUSED = 1 / 3
"""Of the bytes of pointwise chains, what a compiler's fused kernels still move."""
FUSED_KINDS = ("pointwise", "reduction", "copy", "random")
WORDS = ("norm", "softmax", "dropout", "gelu", "silu", "glu")
"""Parts of names of ops that torch does not call pointwise and that compilers fuse all the same."""
ALONE = ("embedding", "index", "scatter", "gather", "sort", "topk", "cat", "nonzero", "linalg")


def fusable(row: OpRow) -> bool:
    """Whether a compiler can do an op in one kernel with its neighbours."""
    if row.cost.macs or not row.cost.bytes or row.op.startswith(COLLECTIVES) or row.phase not in MODEL:
        return False
    if any(word in row.op for word in ALONE):
        return False
    return row.kind in FUSED_KINDS or any(word in row.op for word in WORDS)


def served_seconds(profile: Profile, ceilings: Ceilings) -> float | None:
    """Predicted seconds of a forward in a server: its kernels alone, one after the other; None if a peak is not known.

    Copies are left out: a server writes keys and values in place, and a dynamic cache of transformers copies all of them.
    """
    dtype, seconds = profile.environment.dtype, 0.0
    for node in profile.walk():
        for row in rows_of(node, (FORWARD,)):
            if row_roof(row, ceilings, dtype) is None:
                return None
            if row.cost.flops or row.cost.macs:
                kept = FUSED if fusable(row) else 1.0
                seconds += kept * row.calls * kernel_seconds(row, ceilings, dtype)
    return seconds
