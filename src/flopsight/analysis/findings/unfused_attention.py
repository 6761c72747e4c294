"""Attention as two products with a softmax between them, which one fused kernel could do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ... import units
from ...results.costs import ACROSS, Cost, OpRow
from ...results.node import Node
from ...results.records import FORWARD, Shape
from ..limits.fused import ALONE
from .finding import Finding
from .scene import Scene, paths

BATCHED = ("aten.bmm", "aten.baddbmm", "aten.matmul")
MATH = "_safe_softmax"
"""The softmax of scaled_dot_product_attention itself, if no fused kernel takes its inputs."""


def attention_in_parts(scene: Scene) -> Iterator[Finding]:
    """Attention as two products with a softmax between them: the scores go through memory several times."""
    ceilings = scene.ceilings
    if ceilings is None or not ceilings.bandwidth or scene.launch_bound:
        return
    now = least = 0.0
    places: list[Node] = []
    scores_bytes = 0
    for node in scene.profile.walk():
        parts = _attention_parts(node)
        if not parts:
            continue
        places.append(node)
        now += sum(map(scene.seconds, parts))
        products = [row for row in parts if row.cost.macs]
        least += sum(scene.limit(OpRow(r.op, r.phase, r.calls, _without_scores(r), dtype=r.dtype)) for r in products)
        scores_bytes += sum(row.cost.bytes for row in parts)
    win = now - least
    if not places or not scene.worth(win):
        return
    yield Finding(
        "attention",
        "Attention runs as separate products and a softmax",
        paths(places),
        f"its parts move {units.size(scores_bytes)} and take {units.seconds(now)} {scene.basis}, one "
        f"fused kernel needs {units.seconds(least)}",
        "torch.nn.functional.scaled_dot_product_attention, with what is added to the scores as its attn_mask "
        '(transformers: attn_implementation="sdpa", if the model\'s class has it)',
        win,
    )


def _attention_parts(node: Node) -> list[OpRow]:
    """The op rows of attention taken apart: the products with the scores, and what works on tensors as large as they."""
    softmax = [row for row in node.ops if "softmax" in row.op and "log" not in row.op and row.shapes]
    scores = max((shape for row in softmax for shape in row.shapes[0]), key=prod, default=())
    if len(scores) < 3 or scores[-1] < 2 or not _is_attention(node, softmax, scores):
        return []
    products = [row for row in node.ops if _products(row, scores)]
    others = [row for row in node.ops if not row.cost.macs and row.cost.bytes]
    # products also take their operands laid out anew, which a fused kernel reads as they are
    return [*products, *(row for row in others if _largest(row) >= prod(scores) or _is_turned(row))]


def _is_attention(node: Node, softmax: list[OpRow], scores: Shape) -> bool:
    """Whether forward makes scores by one product, takes a softmax over keys, and multiplies what comes of it.

    Linear attention has no scores, slots compete in a softmax over queries, and capped scores go through tanh.
    """
    forward = [row for row in node.ops if row.phase == FORWARD]
    if any(MATH in row.op or row.layout == ACROSS for row in softmax):
        return False
    if any("tanh" in row.op and scores in (shape for shapes in row.shapes for shape in shapes) for row in forward):
        return False
    runs = sum(row.calls for row in softmax if row.phase == FORWARD)
    calls = [(row, pair) for row in forward for pair in _products(row, scores)]
    made = {pair for _, pair in calls if _makes(pair, scores)}
    used = {pair for _, pair in calls if _uses(pair, scores)}
    if any(one != other for one in made for other in used):
        return True
    # with as many positions as features both products look the same: then there are two for every softmax
    return any(pair in made & used and row.calls - (len(row.shapes) - 1) >= 2 * runs for row, pair in calls)


Pair = tuple[Shape, Shape]


def _products(row: OpRow, scores: Shape) -> list[Pair]:
    """The operands of those calls of a product that make the scores or take them."""
    if row.op not in BATCHED or not row.cost.macs:
        return []
    pairs = [(shapes[-2], shapes[-1]) for shapes in row.shapes if len(shapes) > 1 and min(map(len, shapes[-2:])) > 1]
    return [pair for pair in pairs if _makes(pair, scores) or _uses(pair, scores)]


def _makes(pair: Pair, scores: Shape) -> bool:
    left, right = pair
    return sorted((left[-2], right[-1])) == sorted(scores[-2:]) and prod(left[:-1]) * right[-1] == prod(scores)


def _uses(pair: Pair, scores: Shape) -> bool:
    return any(sorted(side[-2:]) == sorted(scores[-2:]) and prod(side) == prod(scores) for side in pair)


def _is_turned(row: OpRow) -> bool:
    return row.kind == "copy" and not any(word in row.op for word in ALONE)


def _largest(row: OpRow) -> int:
    return max((prod(shape) for shapes in row.shapes for shape in shapes), default=0)


def _without_scores(row: OpRow) -> Cost:
    """The work of a product with its scores kept on the chip: queries, keys, values and results move, half of each call."""
    smaller = [prod(min(shapes[-2:], key=prod)) for shapes in row.shapes if len(shapes) > 1]
    size = {"float64": 8, "float32": 4}.get(row.dtype, 2)
    moved = 2 * size * row.calls * (min(smaller) if smaller else 0)
    return replace(row.cost, bytes=min(row.cost.bytes, moved))
