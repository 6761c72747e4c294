"""What share of its limit each kind of op reaches, by how long its limit is: what a prediction needs beside the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from math import log
from typing import Any

from ..ceilings import Ceilings
from ..costs import OpRow
from .sampling import Sampler

MATMUL, THIN, ODD, ATTENTION = "matmul", "thin matmul", "odd matmul", "attention"
CONVOLUTION, STEM, GROUPED, POOL = "convolution", "stem convolution", "grouped convolution", "pooling"
NORM, BATCH_NORM, SOFTMAX, POINTWISE, REDUCTION, COPY = (
    "norm",
    "batch norm",
    "softmax",
    "pointwise",
    "reduction",
    "copy",
)

WIDTH = 1024
PIECE = 8
FEW_CHANNELS = 8

Case = tuple[str, float, float, Callable[[], object]]
"""The kind, matrix FLOPs, bytes, and the work."""


def family(row: OpRow, *, by_compute: bool = True) -> str:
    """The kind of op whose efficiency a row has; `by_compute`: compute binds it, not memory."""
    name = row.op
    if row.cost.macs:
        if "attention" in name:
            return ATTENTION
        if "conv" in name:
            return _convolution(row)
        if not by_compute:
            return THIN
        return ODD if _odd(row) else MATMUL
    if "pool" in name:
        return POOL
    if "batch_norm" in name:
        return BATCH_NORM
    if "norm" in name:
        return NORM
    if "softmax" in name:
        return SOFTMAX
    return {"reduction": REDUCTION, "copy": COPY}.get(row.kind, POINTWISE)


def _convolution(row: OpRow) -> str:
    """Few channels into a group, or many groups, keep matrix units from their work."""
    shapes = [shape for shape in (row.shapes[0] if row.shapes else ()) if len(shape) == len(row.shapes[0][0]) > 2]
    if len(shapes) < 2:
        return CONVOLUTION
    image, weight = shapes[-2:]
    if weight[1] < image[1]:
        return GROUPED
    return STEM if weight[1] < FEW_CHANNELS else CONVOLUTION


def _odd(row: OpRow) -> bool:
    """Whether the inner or the output size of a product is no multiple of 8: it loads no whole pieces of 16 bytes."""
    shapes = row.shapes[0] if row.shapes else ()
    return bool(shapes) and len(shapes[-1]) > 1 and any(size % PIECE for size in shapes[-1][-2:] if size > PIECE)


def share_reached(points: tuple[tuple[float, ...], ...], limit: float) -> float:
    """The share of its limit that a call reaches, between the measured points by the logarithm of the limit.

    >>> share_reached(((1e-6, 0.1), (1e-4, 0.9)), 1e-5)
    0.5
    """
    if limit <= points[0][0]:
        return points[0][1]
    for (low, at_low), (high, at_high) in pairwise(points):
        if limit <= high:
            return at_low + (at_high - at_low) * (log(limit) - log(low)) / (log(high) - log(low))
    return points[-1][1]


def efficiencies(torch: Any, sampler: Sampler, ceilings: Ceilings) -> dict[str, tuple[tuple[float, ...], ...]]:
    """Measured shares by kind, above 1 where a cache serves what memory could not; kinds that a device cannot run are left out."""
    found: dict[str, list[tuple[float, ...]]] = {}
    dtype = torch.float32 if sampler.cpu else torch.bfloat16
    peak = ceilings.flops.get(str(dtype).removeprefix("torch."))
    if not peak or not ceilings.bandwidth:
        return {}
    for kind, flops, moved, work in _cases(torch, sampler, dtype):
        limit = max(flops / peak, moved / ceilings.bandwidth)
        long = limit > 100e-6
        try:
            seconds = sampler.seconds(work) if long else sampler.short(work)
        except RuntimeError:
            continue
        found.setdefault(kind, []).append((limit, limit / seconds))
    return {kind: tuple(sorted(points)) for kind, points in found.items()}


def _cases(torch: Any, sampler: Sampler, dtype: Any) -> Iterator[Case]:
    """Work of every kind in several sizes, on random data in the layout that suits it."""
    cpu, place, size = sampler.cpu, sampler.device, dtype.itemsize
    functional = torch.nn.functional

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device=place).to(dtype)

    for side in (128, 512, 1024) if cpu else (256, 512, 1024, 2048, 4096, 8192):
        yield MATMUL, 2 * side**3, 3 * side**2 * size, partial(torch.mm, random(side, side), random(side, side))
    for side in (127, 1023) if cpu else (511, 2047, 8191):
        yield ODD, 2 * side**3, 3 * side**2 * size, partial(torch.mm, random(side, side), random(side, side))
    for rows, side in ((1, 1024), (1, 4096)) if cpu else ((1, 1024), (8, 4096), (16, 16384)):
        moved = (side**2 + 2 * rows * side) * size
        yield THIN, 2 * rows * side**2, moved, partial(torch.mm, random(rows, side), random(side, side))
    for batch, channels, extent in ((1, 32, 28), (4, 64, 28)) if cpu else ((8, 64, 56), (64, 128, 28), (256, 256, 28)):
        x = random(batch, channels, extent, extent).contiguous(memory_format=torch.channels_last)
        for kernel in (1, 3):
            w = random(channels, channels, kernel, kernel).contiguous(memory_format=torch.channels_last)
            moved = (2 * x.numel() + w.numel()) * size
            work = partial(torch.conv2d, x, w, padding=kernel // 2)
            yield CONVOLUTION, 2 * x.numel() * channels * kernel**2, moved, work
        w = random(channels, 1, 7, 7)
        moved = (2 * x.numel() + w.numel()) * size
        yield GROUPED, 2 * x.numel() * 49, moved, partial(torch.conv2d, x, w, padding=3, groups=channels)
        pooled = x.numel() // 4
        yield POOL, 0, (x.numel() + pooled) * size, partial(functional.max_pool2d, x, 3, 2, 1)
        ones = torch.ones(channels, device=place, dtype=dtype)
        yield BATCH_NORM, 0, 2 * x.numel() * size, partial(functional.batch_norm, x, ones, ones)
    for shape in (
        ((1, 4, 128, 32), (2, 8, 512, 64)) if cpu else ((1, 16, 128, 64), (8, 16, 512, 64), (4, 32, 2048, 128))
    ):
        heads = [random(*shape) for _ in range(3)]
        elements = heads[0].numel()
        work = partial(functional.scaled_dot_product_attention, *heads)
        yield ATTENTION, 4 * elements * shape[2], 4 * elements * size, work
    for rows in (64, 1024, 16384) if cpu else (128, 2048, 16384, 131072):
        x, y = random(rows, WIDTH), random(rows, WIDTH)
        moved = 2 * x.numel() * size
        yield NORM, 0, moved, partial(functional.layer_norm, x, (WIDTH,))
        yield SOFTMAX, 0, moved, partial(torch.softmax, x, -1)
        yield POINTWISE, 0, moved, partial(functional.gelu, x)
        yield POINTWISE, 0, 3 * x.numel() * size, partial(torch.add, x, y)
        yield REDUCTION, 0, x.numel() * size, partial(torch.sum, x, -1)
        yield COPY, 0, moved, x.t().contiguous
