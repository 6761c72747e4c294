"""Kinds of ops that reach about the same share of their limit, by an op's name and shapes."""

from __future__ import annotations

from math import prod

from ..results.costs import OpRow
from ..results.records import Shape

MATMUL, ODD, THIN, NARROW = "matmul", "odd matmul", "thin matmul", "narrow matmul"
SMALL, EXPERTS = "small matmuls", "grouped matmul"
ATTENTION, DECODING = "attention", "decoding attention"
CONVOLUTION, STEM = "convolution", "stem convolution"
GROUPED, WIDE_GROUPED = "grouped convolution", "wide grouped convolution"
NORM, NARROW_NORM, BATCH_NORM, POOL = "norm", "narrow norm", "batch norm", "pooling"
SOFTMAX, NARROW_SOFTMAX = "softmax", "narrow softmax"
POINTWISE, GELU, EXPONENTIAL, BROADCAST, REDUCTION = "pointwise", "gelu", "exponential", "broadcast", "reduction"
COPY, TURNED = "copy", "turned copy"

BROADER = {
    ODD: MATMUL,
    NARROW: THIN,
    SMALL: MATMUL,
    EXPERTS: THIN,
    DECODING: ATTENTION,
    STEM: CONVOLUTION,
    WIDE_GROUPED: GROUPED,
    NARROW_NORM: NORM,
    NARROW_SOFTMAX: SOFTMAX,
    GELU: POINTWISE,
    EXPONENTIAL: POINTWISE,
    BROADCAST: POINTWISE,
    TURNED: COPY,
}
"""The kind that stands in for one which was not measured."""

PIECE = 8
"""Elements of 16 bits that matrix units load at once."""
FEW_CHANNELS = 8
FEW_ROWS = 16
"""Rows up to which a product, or attention, does nothing but read its weights, or its keys and values."""
SMALL_SIDE = 128
"""Sides up to which a batch of products consists of small ones."""
NARROW_ROW = 384
"""Elements up to which a row keeps only a part of a norm's threads at work."""
LARGE_KERNEL = 4
EXPONENTIALS = ("exp", "tanh", "sigmoid", "silu", "mish", "softplus", "log", "sin", "cos", "erf", "elu", "swish")
PLAIN_UNITS = ("relu", "hardswish", "hardsigmoid")
"""Activations without an exponential in them."""


def family(row: OpRow, *, by_compute: bool = True) -> str:
    """The kind of op whose efficiency a row has; `by_compute`: compute binds it, not memory."""
    name, shapes = row.op, row.shapes[0] if row.shapes else ()
    if row.cost.macs:
        if "attention" in name:
            few = len(shapes) > 1 and shapes[0][-2] <= FEW_ROWS < shapes[1][-2]
            return DECODING if few and not by_compute else ATTENTION
        return _convolution(shapes) if "conv" in name else _product(name, shapes, by_compute=by_compute)
    width = shapes[0][-1] if shapes and shapes[0] else NARROW_ROW + 1
    if "pool" in name:
        return POOL
    if "batch_norm" in name:
        return BATCH_NORM
    if "norm" in name:
        return NARROW_NORM if width <= NARROW_ROW else NORM
    if "softmax" in name:
        return NARROW_SOFTMAX if width <= NARROW_ROW else SOFTMAX
    if row.kind == "reduction":
        return REDUCTION
    if row.kind == "copy":
        return TURNED if name == "aten.clone" else COPY
    return _pointwise(name, shapes)


def _product(name: str, shapes: tuple[Shape, ...], *, by_compute: bool) -> str:
    """Few rows read the weights for little work; few columns keep matrix units from theirs."""
    if "grouped_mm" in name:
        return EXPERTS
    sides = [shape for shape in shapes if len(shape) > 1]
    if len(sides) < 2:
        return MATMUL if by_compute else THIN
    (rows, inner), columns = sides[-2][-2:], sides[-1][-1]
    if "bmm" in name and max(rows, inner, columns) <= SMALL_SIDE:
        return SMALL
    if rows <= FEW_ROWS and not by_compute:
        return THIN
    if any(size % PIECE for size in (inner, columns) if size > PIECE):
        return ODD
    if by_compute:
        return MATMUL
    return NARROW if rows > max(inner, columns) else THIN


def _convolution(shapes: tuple[Shape, ...]) -> str:
    """Few channels into a group, or many groups, keep matrix units from their work."""
    alike = [shape for shape in shapes if len(shape) == len(shapes[0]) > 2]
    if len(alike) < 2:
        return CONVOLUTION
    image, weight = alike[-2:]
    if weight[1] < image[1]:
        return WIDE_GROUPED if weight[-1] > LARGE_KERNEL else GROUPED
    return STEM if weight[1] < FEW_CHANNELS else CONVOLUTION


def _pointwise(name: str, shapes: tuple[Shape, ...]) -> str:
    """Inputs of several sizes are read with computed addresses; some functions take more than a few instructions."""
    if len({prod(shape) for shape in shapes if prod(shape) > 1}) > 1:
        return BROADCAST
    if "gelu" in name:
        return GELU
    plain = any(word in name for word in PLAIN_UNITS)
    return EXPONENTIAL if not plain and any(word in name for word in EXPONENTIALS) else POINTWISE
