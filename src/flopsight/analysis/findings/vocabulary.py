"""Layers over a vocabulary that take a large part of the step: the output layer, the table of embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ... import units
from ...records import BACKWARD, OPTIMIZER, Shape
from .finding import Finding
from .scene import MODEL, Scene

VOCABULARY = 16_384
"""Outputs from which on a layer is one over a vocabulary."""
LARGE = 0.2
"""Share of the step from which on such a layer is worth a sentence."""


def large_head(scene: Scene) -> Iterator[Finding]:
    """A layer over a vocabulary that takes a large part of the step."""
    if scene.step is None:
        return
    for node in scene.profile.walk():
        if node.children or not node.own.forward.macs or not node.output_shapes or not node.input_shapes:
            continue
        out, into = node.output_shapes[0], node.input_shapes[0]
        if len(out) < 3 or out[-1] < VOCABULARY or out[-1] < 8 * into[-1]:
            continue
        taken = sum(scene.seconds(row) for row in node.ops if row.phase in MODEL)
        if taken < LARGE * scene.step:
            continue
        yield Finding(
            "head",
            "The output layer takes a large part of the step",
            (node.path,),
            f"{units.count(out[-1])} outputs for each of {units.count(prod(out[:-1]))} positions take {units.seconds(taken)} "
            f"{scene.basis} and {units.size(node.output_bytes)}",
            _head_move(scene, out),
            taken,
            scene.share(taken),
        )


def _head_move(scene: Scene, out: Shape) -> str:
    if scene.profile.trained:
        return "a loss that works in chunks of positions, which never holds all logits"
    return f"in generation only the last of {units.count(out[-2])} positions is needed"


def large_embedding(scene: Scene) -> Iterator[Finding]:
    """A table of which a step reads few rows, and writes a gradient and an update for all."""
    if scene.step is None or not scene.profile.trained:
        return
    for node in scene.profile.walk():
        if "Embedding" not in node.kind or node.children or not node.own.backward.bytes:
            continue
        rows = [row for row in node.ops if row.phase in (BACKWARD, OPTIMIZER)]
        taken = sum(map(scene.seconds, rows))
        if taken < LARGE * scene.step:
            continue
        yield Finding(
            "embedding",
            "The embedding's dense gradient takes a large part of the step",
            (node.path,),
            f"a step looks up {units.count(prod(node.input_shapes[0]) if node.input_shapes else 0)} rows, and works on all of "
            f"{units.size(node.param_bytes)} in backward and update, for {units.seconds(taken)} {scene.basis}",
            "sparse=True with an optimizer for sparse gradients, or a smaller table",
            taken,
            scene.share(taken),
        )
