"""Grouped products: the experts of a mixture, each on the rows that chose it."""

from ..results.costs import Cost
from ..results.records import OpRecord, TensorMeta
from .matmul import added, numbers_per_element, products
from .registry import aten, formula, traffic

GROUPED = aten("_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2")
MATRIX, STACK = 2, 3
"""Dimensions of an operand with all rows of all groups, and of one with a matrix for each group."""


@formula(*GROUPED)
def grouped_mm(call: OpRecord) -> Cost:
    """One product a group; whichever dimension is ragged, the groups together cover it once.

    Rows behind the last group are not computed, and the matrix of a group without rows is not read. Only if the inner
    dimension is ragged, in the gradient of the weights, does every group have a result: zeros without rows.
    """
    left, right = call.tensor("self"), call.tensor("mat2")
    a, b = left.shape, right.shape
    k = a[-1] * numbers_per_element(left)
    if len(a) == len(b) == STACK:
        return products(call, a[0] * a[1] * k * b[2], added(call))
    m, n = a[-2], b[-1]
    ragged = k if len(a) == len(b) else m if len(a) == MATRIX else n
    covered = sum(call.facts["lengths"]) if "lengths" in call.facts else ragged
    cost = products(call, m * n * k // ragged * covered if ragged else 0, added(call))
    return Cost(cost.macs, cost.flops, _moved(call, covered, ragged))


def stack_of(call: OpRecord) -> tuple[str, TensorMeta] | None:
    """The operand that holds a matrix for each group, and its name, beside one that holds the rows; None if there is none."""
    found = [(name, call.tensor(name)) for name in ("self", "mat2")]
    stacks = [(name, meta) for name, meta in found if len(meta.shape) == STACK]
    return stacks[0] if len(stacks) == 1 else None


def groups_read(call: OpRecord) -> int:
    """How many groups have rows; if their ends are not known, as many as there can be."""
    if "lengths" in call.facts:
        return sum(length > 0 for length in call.facts["lengths"])
    stack = stack_of(call)
    return min(stack[1].shape[0], rows_of(call)) if stack is not None else 0


def rows_of(call: OpRecord) -> int:
    """The rows that are in a group."""
    if "lengths" in call.facts:
        return sum(call.facts["lengths"])
    stack = stack_of(call)
    return call.shape("mat2")[-1] if stack is not None and stack[0] == "self" else call.shape("self")[0]


def _moved(call: OpRecord, covered: int, ragged: int) -> int:
    """What is read and written of the rows that are in a group, and of the matrices that meet any."""
    stack, whole = stack_of(call), traffic(call)
    if not whole:
        return 0
    rows = [] if stack is None else list(call.outputs)
    rows += [call.tensor(name) for name in ("self", "mat2") if stack is None or name != stack[0]]
    spared = sum(meta.nbytes - _part(meta, covered, ragged) for meta in rows)
    if stack is not None:
        name, weights = stack
        groups, read = weights.shape[0], groups_read(call)
        own = [weights, *call.tensors("scale_b" if name == "mat2" else "scale_a"), *call.tensors("bias")]
        spared += sum(meta.nbytes - _part(meta, read, groups) for meta in own if meta.shape[:1] == (groups,))
    return whole - spared


def _part(meta: TensorMeta, some: int, whole: int) -> int:
    return meta.nbytes * some // whole if whole else meta.nbytes
