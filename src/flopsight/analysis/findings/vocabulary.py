"""Layers over a vocabulary that take a large part of the step: the output layer, the table of embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ... import units
from ...results.node import Node
from ...results.records import BACKWARD, OPTIMIZER, Shape
from ..limits.fused import MODEL
from .finding import Finding
from .scene import Scene

VOCABULARY = 16_384
"""Outputs from which on a layer is one over a vocabulary."""
LARGE = 0.2
"""Share of the step, or of its peak, from which on such a layer is worth a sentence."""
NEARLY = 0.9
"""Share of the logits' elements from which on a tensor is made of them."""


def large_head(scene: Scene) -> Iterator[Finding]:
    """A layer over a vocabulary: in inference its time for positions that generation does not need, in training its logits."""
    if scene.step is None:
        return
    for node in scene.profile.walk():
        if node.children or not node.own.forward.macs or not node.output_shapes or not node.input_shapes:
            continue
        out, into = node.output_shapes[0], node.input_shapes[0]
        if len(out) < 3 or out[-1] < VOCABULARY or out[-1] < 8 * into[-1]:
            continue
        yield from _logits(scene, node, out) if scene.profile.trained else _positions(scene, node, out)


def _positions(scene: Scene, node: Node, out: Shape) -> Iterator[Finding]:
    """Logits of every position, of which generation reads the last."""
    taken = sum(scene.seconds(row) for row in node.ops if row.phase in MODEL)
    win = taken * (1 - 1 / max(1, out[-2]))
    if scene.step is None or win < LARGE * scene.step:
        return
    yield Finding(
        "head",
        "The output layer takes a large part of the step",
        (node.path,),
        f"{units.count(out[-1])} outputs for each of {units.count(prod(out[:-1]))} positions take {units.seconds(taken)} "
        f"{scene.basis} and {units.size(node.output_bytes)}",
        f"if it generates, only the last of {units.count(out[-2])} positions is needed (transformers: logits_to_keep=1)",
        win,
    )


def _logits(scene: Scene, node: Node, out: Shape) -> Iterator[Finding]:
    """Logits of all positions at once, with what the loss makes of them: chunks take as long and hold less."""
    peak = scene.profile.peak_bytes
    if not peak:
        return
    size = prod(out)
    makers = [each for each in scene.profile.walk() if each.path == node.path or _has_rows_of(each, size)]
    held = min(peak, sum(each.own_peak_bytes for each in makers))
    if held < LARGE * peak:
        return
    yield Finding(
        "head",
        "Logits of all positions hold a large part of the memory",
        (node.path,),
        f"{units.count(out[-1])} outputs for each of {units.count(prod(out[:-1]))} positions are {units.size(node.output_bytes)}, with "
        f"what the loss makes of them {units.size(held)} of the peak of {units.size(peak)}",
        "a loss that works in chunks of positions, which never holds all logits",
        bytes=held,
    )


def _has_rows_of(node: Node, size: int) -> bool:
    """Whether a module itself works, without products, on tensors of nearly this many elements: a loss may drop a position."""
    sizes = (prod(shape) for row in node.ops if not row.cost.macs for shapes in row.shapes for shape in shapes)
    return any(NEARLY * size <= each <= size for each in sizes)


def large_embedding(scene: Scene) -> Iterator[Finding]:
    """A table of which a step reads few rows, and writes a gradient and an update for all."""
    if scene.step is None or not scene.profile.trained:
        return
    multiplied = {p.key for node in scene.profile.walk() if node.own.forward.macs for p in node.parameters}
    for node in scene.profile.walk():
        if "Embedding" not in node.kind or node.children or not node.own.backward.bytes:
            continue
        if any(parameter.key in multiplied for parameter in node.parameters):
            continue  # the output layer's gradient of the same table is dense anyway
        rows = [row for row in node.ops if row.phase in (BACKWARD, OPTIMIZER)]
        taken = sum(map(scene.seconds, rows))
        if taken < LARGE * scene.step:
            continue
        updated = " and update" if any(row.phase == OPTIMIZER for row in rows) else ""
        yield Finding(
            "embedding",
            "The embedding's dense gradient takes a large part of the step",
            (node.path,),
            f"a step looks up {units.count(prod(node.input_shapes[0]) if node.input_shapes else 0)} rows, and works on all of "
            f"{units.size(node.param_bytes)} in backward{updated}, for {units.seconds(taken)} {scene.basis}",
            "sparse=True with an optimizer for sparse gradients, or a smaller table",
            taken,
        )
