"""What share of its limit each kind of op reaches, by how long its limit is: what a prediction needs beside the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, pairwise
from math import log
from typing import Any

from ..results.ceilings import Ceilings
from . import op_families as kinds
from .sampling import FLUSH, Sampler

WIDTH = 1024
SHORT = 100e-6
"""Limits up to which many calls are timed as one."""

Case = tuple[str, float, float, Callable[[], object]]
"""The kind, matrix FLOPs, bytes, and the work."""
Points = tuple[tuple[float, ...], ...]


def share_reached(points: Points, limit: float) -> float:
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


def efficiencies(
    torch: Any, sampler: Sampler, ceilings: Ceilings, budget: float, begin: Callable[[str], object] = lambda _kind: None
) -> dict[str, Points]:
    """Measured shares by kind, above 1 if a cache serves what memory could not; kinds that a device cannot run are left out.

    Every case gets its part of the budget, in seconds; `begin` hears of each.
    """
    found: dict[str, list[tuple[float, ...]]] = {}
    dtype = torch.float32 if sampler.cpu else torch.bfloat16
    peak = ceilings.flops.get(str(dtype).removeprefix("torch."))
    if not peak or not ceilings.bandwidth:
        return {}
    number = sum(1 for _ in Cases(torch, torch.device("meta"), dtype, cpu=sampler.cpu))
    until = sampler.clock() + budget
    cases = Cases(torch, sampler.device, dtype, cpu=sampler.cpu)
    for place, (kind, flops, moved, work) in enumerate(cases):
        begin(kind)
        limit = max(flops / peak, moved / ceilings.bandwidth)
        try:
            until += sampler.load(work)
            share = max(0.0, until - sampler.clock()) / (number - place)
            seconds = sampler.seconds(work, share) if limit > SHORT else sampler.short(work, share)
        except RuntimeError:
            continue
        found.setdefault(kind, []).append((limit, limit / seconds))
    return {kind: tuple(sorted(points)) for kind, points in found.items()}


class Cases:
    """Work of every kind in several sizes, on random data in the layout that models have it in."""

    def __init__(self, torch: Any, place: Any, dtype: Any, *, cpu: bool) -> None:
        self._torch, self._functional = torch, torch.nn.functional
        self._cpu, self._place, self._dtype, self._size = cpu, place, dtype, dtype.itemsize

    def __iter__(self) -> Iterator[Case]:
        yield from self._products()
        yield from self._batched()
        yield from self._decoding()
        yield from self._convolutions()
        yield from self._stems()
        yield from self._rows()
        yield from self._copies()

    def _random(self, *shape: int) -> Any:
        return self._torch.randn(*shape, device=self._place).to(self._dtype)

    def _images(self, *shape: int) -> Any:
        return self._random(*shape).contiguous(memory_format=self._torch.channels_last)

    def _products(self) -> Iterator[Case]:
        cpu = self._cpu
        sides = (128, 512, 1024) if cpu else (256, 512, 1024, 2048, 4096, 8192)
        square = [(side, side, side) for side in sides]
        # a vocabulary has any number of words
        odd = (
            ((256, 128, 127), (512, 256, 2047)) if cpu else ((512, 1024, 1023), (4096, 1024, 8191), (8192, 1024, 32767))
        )
        thin = (
            ((1, 1024, 1024), (1, 4096, 4096))
            if cpu
            else ((1, 1024, 1024), (1, 4096, 4096), (8, 4096, 16384), (16, 16384, 16384))
        )
        narrow = () if cpu else ((4096, 128, 128), (65536, 128, 128), (262144, 128, 384))
        shapes = {kinds.MATMUL: square, kinds.ODD: odd, kinds.THIN: thin, kinds.NARROW: narrow}
        for kind, sizes in shapes.items():
            for rows, inner, out in sizes:
                moved = (rows * inner + inner * out + rows * out) * self._size
                copies = 1 if cpu or kind != kinds.THIN else self._beyond_caches(moved)
                weights = cycle([self._random(out, inner) for _ in range(copies)])
                yield kind, 2 * rows * inner * out, moved, partial(self._on_next, self._random(rows, inner), weights)

    def _beyond_caches(self, moved: int) -> int:
        """How many copies of weights it takes that each is read from memory: a step of a decoder reads each once."""
        return 1 if self._place.type == "meta" else max(1, -(-FLUSH // moved))

    def _on_next(self, rows: Any, weights: Iterator[Any]) -> Any:
        return self._functional.linear(rows, next(weights))

    def _decoding(self) -> Iterator[Case]:
        """One token's attention to a cache, and the experts of a few tokens."""
        torch, size = self._torch, self._size
        if self._cpu:
            return
        for batch in (1, 8, 64):
            q, elements = self._random(batch, 32, 1, 128), 2 * batch * 8 * 1024 * 128
            caches = [
                self._random(2, batch, 8, 1024, 128).unbind() for _ in range(self._beyond_caches(elements * size))
            ]
            attend = partial(self._functional.scaled_dot_product_attention, enable_gqa=True)
            work = partial(lambda q, attend, kept: attend(q, *next(kept)), q, attend, cycle(caches))
            yield kinds.DECODING, 8 * elements, elements * size, work
        grouped: Any = getattr(self._functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)
        for rows in (2, 16, 128) if grouped is not None else ():
            inner, out, experts = 2048, 14336, min(8, rows)
            ends = torch.arange(1, 9, dtype=torch.int32, device=self._place).clamp(max=experts) * (rows // experts)
            work = partial(grouped, self._random(rows, inner), self._random(8, inner, out), offs=ends)
            yield kinds.EXPERTS, 2 * rows * inner * out, experts * inner * out * size, work

    def _batched(self) -> Iterator[Case]:
        side, inner = 64, 32
        for number in (64, 512) if self._cpu else (64, 2048, 16384):
            a, b = self._random(number, side, inner), self._random(number, inner, side)
            moved = number * (2 * side * inner + side * side) * self._size
            yield kinds.SMALL, 2 * number * side * side * inner, moved, partial(self._torch.bmm, a, b)
        shapes = (
            ((1, 4, 128, 32), (2, 8, 512, 64))
            if self._cpu
            else ((1, 16, 128, 64), (8, 16, 512, 64), (4, 32, 2048, 128))
        )
        for shape in shapes:
            heads = [self._random(*shape) for _ in range(3)]
            elements = heads[0].numel()
            work = partial(self._functional.scaled_dot_product_attention, *heads)
            yield kinds.ATTENTION, 4 * elements * shape[2], 4 * elements * self._size, work

    def _convolutions(self) -> Iterator[Case]:
        torch, size = self._torch, self._size
        sizes = ((1, 32, 28), (4, 64, 28)) if self._cpu else ((8, 64, 56), (64, 128, 28), (256, 256, 28))
        for batch, channels, extent in sizes:
            x = self._images(batch, channels, extent, extent)
            for kernel in (1, 3):
                w = self._images(channels, channels, kernel, kernel)
                work = partial(torch.conv2d, x, w, padding=kernel // 2)
                flops = 2 * x.numel() * channels * kernel**2
                yield kinds.CONVOLUTION, flops, (2 * x.numel() + w.numel()) * size, work
            for kind, kernel in ((kinds.GROUPED, 3), (kinds.WIDE_GROUPED, 7)):
                w = self._images(channels, 1, kernel, kernel)
                work = partial(torch.conv2d, x, w, padding=kernel // 2, groups=channels)
                yield kind, 2 * x.numel() * kernel**2, (2 * x.numel() + w.numel()) * size, work
            scales = [torch.ones(channels, device=self._place, dtype=self._dtype) for _ in range(4)]
            yield kinds.BATCH_NORM, 0, 2 * x.numel() * size, partial(self._functional.batch_norm, x, *scales)

    def _stems(self) -> Iterator[Case]:
        """The first layers of vision models: three channels in, a pool right after, or one product for each patch."""
        for batch in (1, 4) if self._cpu else (8, 64):
            side = 112 if self._cpu else 224
            x, half = self._images(batch, 3, side, side), side // 2
            for out, kernel, stride in ((64, 7, 2), (256, 16, 16)):
                w = self._images(out, 3, kernel, kernel)
                made = batch * out * (side // stride) ** 2
                work = partial(self._torch.conv2d, x, w, stride=stride, padding=kernel // 2 if stride == 2 else 0)
                yield kinds.STEM, 2 * made * 3 * kernel**2, (x.numel() + w.numel() + made) * self._size, work
            first = self._images(batch, 64, half, half)
            # a pool over maxima returns their places too, 8 bytes each
            moved = first.numel() * self._size + first.numel() // 4 * (self._size + 8)
            yield kinds.POOL, 0, moved, partial(self._functional.max_pool2d, first, 3, 2, 1)

    def _rows(self) -> Iterator[Case]:
        torch, functional, size = self._torch, self._functional, self._size
        for rows in (64, 1024, 8192) if self._cpu else (128, 2048, 16384, 131072):
            x, y = self._random(rows, WIDTH), self._random(rows, WIDTH)
            moved = 2 * x.numel() * size
            for kind, width in ((kinds.NORM, WIDTH), (kinds.NARROW_NORM, 128)):
                scales = [torch.ones(width, device=self._place, dtype=self._dtype) for _ in range(2)]
                yield kind, 0, moved, partial(functional.layer_norm, x.view(-1, width), (width,), *scales)
            for kind, width in ((kinds.SOFTMAX, WIDTH), (kinds.NARROW_SOFTMAX, 64)):
                yield kind, 0, moved, partial(torch.softmax, x.view(-1, width), -1)
            yield kinds.GELU, 0, moved, partial(functional.gelu, x)
            yield kinds.EXPONENTIAL, 0, moved, partial(torch.tanh, x)
            yield kinds.POINTWISE, 0, 3 * x.numel() * size, partial(torch.add, x, y)
            parts, row = x.view(-1, 16, WIDTH), self._random(rows // 16, 1, WIDTH)
            yield kinds.BROADCAST, 0, moved + row.numel() * size, partial(torch.mul, parts, row)
            yield kinds.REDUCTION, 0, x.numel() * size, partial(torch.sum, x, -1)

    def _copies(self) -> Iterator[Case]:
        """A cast, and heads before positions for positions before heads."""
        for rows in (64, 1024, 8192) if self._cpu else (128, 2048, 16384, 131072):
            x = self._random(rows, WIDTH)
            wide = self._torch.float64 if self._cpu else self._torch.float32
            yield kinds.COPY, 0, x.numel() * (self._size + wide.itemsize), partial(x.to, wide)
            heads = x.view(-1, 32, 16, 64).transpose(1, 2)
            yield kinds.TURNED, 0, 2 * x.numel() * self._size, heads.contiguous
