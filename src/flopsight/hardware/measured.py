"""Measure a device's real ceilings: matrix products by dtype, memory, the host's cost of a call; shortly, or in half a minute."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ..errors import InputError
from ..results.ceilings import MEASURED, Ceilings
from .detect import Found, tf32_products
from .efficiency import efficiencies
from .host_calls import host_prices
from .known_ceilings import cpu_cache
from .sampling import FLUSH, Sampler, Sized

SIDES = {"cpu": (256, 512, 1024, 2048), "other": (1024, 2048, 4096, 8192)}
"""Sides of the square products; the fastest counts."""
IMAGES: dict[str, tuple[tuple[int, int, int], ...]] = {"cpu": ((1, 64, 28), (4, 64, 56)), "other": ()}
"""Batch, channels and side of convolutions that are tried beside the products: another library runs them on a CPU."""
CONVOLVED = ("float32", "bfloat16")
CACHED, COPIES = 8, 10
"""Copied is so small a part of the cache that source and copy stay in it, also beside others; so many times in a row."""
DISTURBED = 3.0
"""How much less than one thread times their number all threads reach, if other processes have the cores."""
DTYPES = {
    "cpu": ("float32", "bfloat16", "float16", "float64"),
    "other": ("bfloat16", "float16", "tf32", "float32", "float64"),
}


@dataclass(frozen=True)
class Pace:
    """Seconds for each part of a measurement; what does not fit into them is not measured."""

    whole: float
    warm_up: float
    products: float
    """For each dtype, and once more for its convolutions."""
    memory: float
    copied: int
    """Bytes of a buffer for the bandwidth: more than a cache holds."""
    flush: int = FLUSH
    calls: float = 0.0
    kinds: float = 0.0


THOROUGH = Pace(whole=28.0, warm_up=0.5, products=1.2, memory=2.0, copied=512 << 20, calls=3.0, kinds=13.0)
SHORT = Pace(whole=2.5, warm_up=0.1, products=0.3, memory=0.6, copied=128 << 20, flush=64 << 20)
"""What `demo` and `profile` measure by themselves: products and memory."""


def measure(found: Found, progress: Callable[[str], None] = lambda _doing: None, *, pace: Pace = THOROUGH) -> Ceilings:
    """This device's ceilings, as its kernels reach them on random data."""
    import torch

    place = torch.device(found.device)
    if place.type == "meta":
        raise InputError("meta is not a device: nothing runs there that could be measured.")
    with torch.no_grad(), _random_kept(torch, place):
        return Probes(torch, Sampler(torch, place, flush=pace.flush), pace, progress).ceilings(found)


class Probes:
    """The parts of a measurement, one after the other, each within its seconds and all within the whole."""

    def __init__(self, torch: Any, sampler: Sampler, pace: Pace, progress: Callable[[str], None]) -> None:
        self._torch, self._sampler, self._pace, self._progress = torch, sampler, pace, progress
        self._kind = "cpu" if sampler.cpu else "other"
        self._begun, self._busy = sampler.clock(), 0.0

    def ceilings(self, found: Found) -> Ceilings:
        """What was measured; the dtypes that models use most come first, since time may run out."""
        torch, sampler, pace = self._torch, self._sampler, self._pace
        square = torch.randn(SIDES[self._kind][1], SIDES[self._kind][1], device=sampler.device)
        sampler.warm_up(lambda: square @ square, pace.warm_up)
        first, *others = DTYPES[self._kind]
        flops = {first: self._rate(first)}
        bandwidth = self._bandwidth()
        cache = cpu_cache() if sampler.cpu else None
        cached = self._cache_bandwidth(cache, bandwidth)
        flops |= {dtype: self._rate(dtype) for dtype in others}
        ceilings = Ceilings(
            name=found.name,
            flops={dtype: rate for dtype, rate in flops.items() if rate},
            bandwidth=bandwidth,
            cache=cache,
            cache_bandwidth=cached,
            memory=found.memory,
            source=MEASURED,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        busy = max(self._busy, sampler.spread)
        if pace.kinds:
            ceilings = self._with_prices(ceilings)
        return replace(ceilings, busy=max(busy, sampler.dropped / max(1, sampler.taken)))

    def _with_prices(self, ceilings: Ceilings) -> Ceilings:
        """What a prediction needs beside the ceilings."""
        torch, sampler = self._torch, self._sampler
        host = host_prices(torch, sampler.device, self._seconds("calls", self._pace.calls))
        x = torch.zeros(16, device=sampler.device)
        shortest = sampler.short(lambda: x.add_(1))
        budget = self._seconds("kinds of ops", self._pace.kinds)
        efficiency = efficiencies(torch, sampler, ceilings, budget, lambda kind: self._seconds(kind, 0.0))
        return replace(ceilings, host=host, shortest_kernel=shortest, efficiency=efficiency)

    def _seconds(self, what: str, wanted: float) -> float:
        """Say what is measured now, and how many seconds there are for it."""
        spent = self._sampler.clock() - self._begun
        most = math.ceil(self._pace.whole)
        self._progress(f"{what}, second {min(int(spent) + 1, most)} of {most}")
        return max(0.0, min(wanted, self._pace.whole - spent))

    def _rate(self, dtype: str) -> float | None:
        """FLOP/s of the fastest product or convolution; None if the device has none in the dtype, or time has run out."""
        torch, sampler = self._torch, self._sampler
        number = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
        products = [
            (2.0 * side**3, partial(_product, torch, sampler.device, number, side)) for side in SIDES[self._kind]
        ]
        convolutions = [
            (2.0 * n * c * c * side**2 * 9, partial(_convolution, torch, sampler.device, number, n, c, side))
            for n, c, side in (IMAGES[self._kind] if dtype in CONVOLVED else ())
        ]
        with tf32_products(torch, sampler.device, allowed=dtype == "tf32"):
            rates = [
                self._fastest(f"products in {dtype}", products),
                self._fastest(f"convolutions in {dtype}", convolutions),
            ]
        return max(rates) or None

    def _fastest(self, what: str, sizes: Sequence[Sized]) -> float:
        """FLOP/s of all threads; 0 if the device cannot do such work, or time has run out.

        Threads wait for each other, so that beside other processes they reach a small part of what they could. One
        thread's processor time tells that: if all reach less than a third of what one has times their number, the
        others were too many, and what one has times their number is taken.
        """
        sampler = self._sampler
        budget = self._seconds(what, self._pace.products) if sizes else 0.0
        together = sampler.fastest(sizes, budget * 2 / 3) if budget else 0.0
        if not together or sampler.threads == 1:
            return together
        with sampler.one_thread():
            alone = sampler.threads * sampler.fastest(sizes, budget / 3)
        if together > alone / DISTURBED:
            return together
        self._busy = max(self._busy, 1 - together / alone)
        return alone

    def _bandwidth(self) -> float:
        """Bytes per second of the better of a copy and a sum of two: reads are faster than writes."""
        torch, sampler = self._torch, self._sampler
        budget = self._seconds("memory", self._pace.memory)
        a = torch.arange(self._pace.copied // 4, device=sampler.device, dtype=torch.float32)
        b = torch.empty_like(a)
        half = len(a) // 2
        x, y, z = a[:half], a[half:], b[:half]

        def best(seconds: float) -> float:
            copied = 2 * a.nbytes / sampler.least(lambda: b.copy_(a), seconds)
            return float(max(copied, 3 * x.nbytes / sampler.least(lambda: torch.add(x, y, out=z), seconds)))

        return self._more(best, budget / 2)

    def _more(self, rate: Callable[[float], float], budget: float) -> float:
        """A rate of all threads, or of one: beside other processes one may reach more than all that wait for each other."""
        if self._sampler.threads == 1:
            return rate(budget)
        with self._sampler.one_thread():
            alone = rate(budget / 3)
        return max(alone, rate(budget * 2 / 3))

    def _cache_bandwidth(self, cache: int | None, memory: float) -> float | None:
        """Bytes per second of a copy that stays in a CPU's cache; None if it is no faster than memory.

        A device's cache is not measured: a copy of what fits it is over before the next one can be launched.
        """
        budget = self._seconds("cache", self._pace.memory / 4)
        if cache is None or not budget:
            return None
        a = self._torch.ones(min(cache, self._pace.copied) // CACHED // 4)
        b = self._torch.empty_like(a)

        def rate(seconds: float) -> float:
            least = self._sampler.least(lambda: [b.copy_(a) for _ in range(COPIES)], seconds, warm=True)
            return float(2 * COPIES * a.nbytes / least)

        found = self._more(rate, budget)
        return found if found > memory else None


def _product(torch: Any, place: Any, dtype: Any, side: int) -> Callable[[], object]:
    a, b = (torch.randn(side, side, device=place).to(dtype) for _ in range(2))
    return partial(torch.mm, a, b, out=torch.empty_like(a))


def _convolution(torch: Any, place: Any, dtype: Any, batch: int, channels: int, side: int) -> Callable[[], object]:
    x = torch.randn(batch, channels, side, side, device=place).to(dtype)
    w = torch.randn(channels, channels, 3, 3, device=place).to(dtype)
    return partial(torch.conv2d, x.contiguous(memory_format=torch.channels_last), w, padding=1)


@contextmanager
def _random_kept(torch: Any, place: Any) -> Iterator[None]:
    """The random generators go on afterwards as if nothing had been drawn."""
    devices = [place] if place.type != "cpu" else []
    with torch.random.fork_rng(devices, device_type=place.type if devices else "cuda"):
        yield
