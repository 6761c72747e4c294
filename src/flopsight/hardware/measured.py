"""Measure a device's real ceilings: matrix products by dtype, memory, the host's cost of a call; takes some seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ..ceilings import MEASURED, Ceilings
from ..errors import InputError
from .ceilings import cpu_cache
from .detect import Found
from .efficiency import efficiencies
from .host_calls import host_prices
from .precision import tf32_products
from .sampling import Sampler

SIDES = {"cpu": (512, 1024, 2048), "other": (4096, 8192)}
"""Sides of the square products; the fastest counts."""
IMAGES = {"cpu": dict.fromkeys(("float32", "bfloat16"), (4, 64, 56))}
"""Batch, channels and side of a convolution that is tried beside the products."""
SLOW_DTYPES = ("float64", "float32")
COPIED = {"cpu": 512 << 20, "other": 1 << 30}
"""Bytes of a buffer for the bandwidth: far more than any cache holds."""
DTYPES = {"cpu": ("float32", "bfloat16", "float64"), "other": ("bfloat16", "float16", "tf32", "float32", "float64")}


def measure(found: Found, progress: Callable[[str], None] = lambda _doing: None) -> Ceilings:
    """This device's ceilings, as its kernels reach them on random data."""
    import torch

    place = torch.device(found.device)
    if place.type == "meta":
        raise InputError("meta is no device: nothing runs there that could be measured.")
    kind = "cpu" if place.type == "cpu" else "other"
    sampler = Sampler(torch, place)
    with torch.no_grad(), _random_kept(torch, place):
        square = torch.randn(SIDES[kind][-2], SIDES[kind][-2], device=place)
        sampler.warm_up(lambda: square @ square)
        flops: dict[str, float] = {}
        for dtype in DTYPES[kind]:
            progress(f"products in {dtype}")
            rate = _products(torch, sampler, dtype, kind)
            if rate:
                flops[dtype] = rate
        progress("memory")
        bandwidth = _bandwidth(torch, sampler, COPIED[kind])
        progress("calls")
        host = host_prices(torch, place)
        ceilings = Ceilings(
            name=found.name,
            flops=flops,
            bandwidth=bandwidth,
            cache=cpu_cache() if kind == "cpu" else None,
            memory=found.memory,
            source=MEASURED,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            host=host,
            shortest_kernel=_shortest(torch, sampler),
        )
        progress("kinds of ops")
        busy = sampler.spread
        efficiency = efficiencies(torch, sampler, ceilings)
    return replace(ceilings, busy=max(busy, sampler.dropped / max(1, sampler.taken)), efficiency=efficiency)


def _products(torch: Any, sampler: Sampler, dtype: str, kind: str) -> float | None:
    """FLOP/s of the fastest square product; None where the device has none in the dtype."""
    rates = []
    sides = SIDES[kind][:1] if dtype in SLOW_DTYPES and kind == "other" else SIDES[kind]
    with tf32_products(torch, sampler.device, allowed=dtype == "tf32"):
        for side in sides:
            try:
                number = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
                a, b = (torch.randn(side, side, device=sampler.device).to(number) for _ in range(2))
                out = torch.empty_like(a)

                def product(a: Any = a, b: Any = b, out: Any = out) -> Any:
                    return torch.mm(a, b, out=out)

                rates.append(2 * side**3 / sampler.least(product))
            except (RuntimeError, TypeError):  # no such product there, or no memory for it
                continue
    if rates and dtype in IMAGES.get(kind, {}):
        rates.append(_convolution(torch, sampler, getattr(torch, dtype), *IMAGES[kind][dtype]))
    return max(rates, default=None)


def _convolution(torch: Any, sampler: Sampler, dtype: Any, batch: int, channels: int, side: int) -> float:
    """FLOP/s of a convolution: on a CPU another library than that of the products runs it, and may be faster."""
    x = torch.randn(batch, channels, side, side, device=sampler.device).to(dtype)
    x = x.contiguous(memory_format=torch.channels_last)
    w = torch.randn(channels, channels, 3, 3, device=sampler.device).to(dtype)
    return float(2 * x.numel() * channels * 9 / sampler.least(lambda: torch.conv2d(x, w, padding=1)))


def _bandwidth(torch: Any, sampler: Sampler, size: int) -> float:
    """Bytes per second of the better of a copy and a sum of two: reads are faster than writes."""
    a = torch.randn(size // 4, device=sampler.device)
    b = torch.empty_like(a)
    copied = 2 * size / sampler.least(lambda: b.copy_(a))
    half = size // 8
    x, y, z = a[:half], a[half:], b[:half]
    added = 3 * size / 2 / sampler.least(lambda: torch.add(x, y, out=z))
    return float(max(copied, added))


def _shortest(torch: Any, sampler: Sampler) -> float:
    x = torch.zeros(16, device=sampler.device)
    return sampler.short(lambda: x.add_(1))


@contextmanager
def _random_kept(torch: Any, place: Any) -> Iterator[None]:
    """The random generators go on afterwards as if nothing had been drawn."""
    devices = [place] if place.type != "cpu" else []
    with torch.random.fork_rng(devices, device_type=place.type if devices else "cuda"):
        yield
