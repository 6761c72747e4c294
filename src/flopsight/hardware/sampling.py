"""Seconds of a piece of work on a device, as its ceiling needs them: warm clocks, cold caches, undisturbed samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter, process_time
from typing import Any

from ..results.timings import Stat

SAMPLES = 12
FEWEST = 3
MANY = 200
"""Samples after which the fastest is taken, also if they still lie apart."""
ALIKE = 0.03
"""Spread, relative to the median, below which more samples would say the same."""
BUDGET = 1.0
"""Seconds in which one piece of work is sampled."""
WARM_UPS = 3
PREEMPTED = 1.15
"""Wall over CPU time, relative to the best sample, above which other processes had the cores."""
FLUSH = 256 << 20
"""Bytes that are written between samples, so that nothing is left of the last one in a cache."""
TOGETHER = 50
"""Short kernels that are timed as one."""

Sized = tuple[float, Callable[[], Callable[[], object]]]
"""FLOPs, and what makes the work: its data takes memory only while it runs."""


def undisturbed(samples: list[tuple[float, float]]) -> list[float]:
    """Wall times of the samples, (wall, CPU time), in which no other process had the cores.

    >>> undisturbed([(1.0, 2.0), (1.1, 2.0), (3.0, 2.0)])
    [1.0, 1.1]
    """
    ratios = [wall / cpu if cpu else 1.0 for wall, cpu in samples]
    best = min(ratios)
    return [wall for (wall, _), ratio in zip(samples, ratios, strict=True) if ratio <= PREEMPTED * best]


class Sampler:
    """Times work on one device; `spread` and `dropped` say how quiet the machine was."""

    def __init__(
        self,
        torch: Any,
        device: Any,
        *,
        flush: int = FLUSH,
        clock: Callable[[], float] = perf_counter,
        processor_clock: Callable[[], float] = process_time,
    ) -> None:
        self._torch, self.device = torch, device
        self.clock, self._processor_clock = clock, processor_clock
        self.cpu = device.type == "cpu"
        self.threads = torch.get_num_threads() if self.cpu else 1
        self._single = self.cpu and self.threads == 1
        """One thread's processor time is its time without other processes."""
        self.spread, self.dropped, self.taken = 0.0, 0, 0
        self._flush = torch.empty(flush if not self.cpu else flush // 2, dtype=torch.uint8, device=device)

    def least(self, work: Callable[[], object], budget: float = BUDGET, *, warm: bool = False) -> float:
        """The fastest undisturbed sample: a ceiling is what the device can reach, not what it reaches beside others.

        Beside others it takes the more samples: one of them may find the cores free. `warm` leaves caches as they are.
        """
        return min(self._kept(work, budget, most=MANY, warm=warm))

    def seconds(self, work: Callable[[], object], budget: float = BUDGET, *, warm: bool = False) -> float:
        """The median of the undisturbed samples; `warm` leaves caches as they are."""
        return median(self._kept(work, budget, most=SAMPLES, warm=warm))

    def fastest(self, sizes: Sequence[Sized], budget: float) -> float:
        """FLOP/s at the best of several sizes, the smallest first; a size that would not fit the budget is left out.

        0 if the device cannot do such work.
        """
        until, best = self.clock() + budget, 0.0
        for place, (flops, make) in enumerate(sizes):
            try:
                work = make()
                until += self.load(work)
                best = max(best, flops / self.least(work, (until - self.clock()) / (len(sizes) - place)))
                if place + 1 < len(sizes) and FEWEST * sizes[place + 1][0] > best * (until - self.clock()):
                    best = max(best, flops / self.least(work, until - self.clock()))  # the rest of the time
                    break
            except (RuntimeError, TypeError):  # no such work there, or no memory for it
                continue
        return best

    def load(self, work: Callable[[], object]) -> float:
        """Make the first call on a device, which loads its kernel, and give the seconds it took: no budget pays for them."""
        if self.cpu:
            return 0.0
        begun = self.clock()
        work()
        self.wait()
        return self.clock() - begun

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """On a CPU, work runs on one thread, whose time other processes have no share in."""
        self._torch.set_num_threads(1)
        self._single = True
        try:
            yield
        finally:
            self._torch.set_num_threads(self.threads)
            self._single = self.threads == 1

    def _kept(self, work: Callable[[], object], budget: float, *, most: int, warm: bool) -> list[float]:
        """Wall times of undisturbed samples; one is taken in any case, and none begins that would end after the budget."""
        begun = self.clock()
        first = self._one(work)
        for _ in range(WARM_UPS - 1):
            if self.clock() - begun + first[0] <= budget / 3:
                first = self._one(work)
        taken: list[tuple[float, float]] = []
        now, last = self.clock(), first[0]
        while len(taken) < most and now + last <= begun + budget and not self._settled(taken):
            if not warm:
                self._flush.zero_()
            taken.append(self._one(work))
            last, now = self.clock() - now, self.clock()
        taken = taken or [first]
        kept = undisturbed(taken)
        self.taken += len(taken)
        self.dropped += len(taken) - len(kept)
        self.spread = max(self.spread, Stat(tuple(kept)).spread)
        return kept

    @staticmethod
    def _settled(taken: list[tuple[float, float]]) -> bool:
        """Whether more samples would say the same."""
        return len(taken) >= SAMPLES and Stat(tuple(undisturbed(taken))).spread < ALIKE

    def short(self, work: Callable[[], object], budget: float = BUDGET) -> float:
        """Seconds of a short kernel: many in a row, on a device behind a pause, so that the host is ahead of it."""
        if self.cpu:
            return self.seconds(lambda: [work() for _ in range(5)], budget, warm=True) / 5
        torch = self._torch

        def many() -> None:
            for _ in range(TOGETHER):
                work()

        many()
        times = []
        for _ in range(FEWEST):
            torch.cuda.synchronize(self.device)
            torch.cuda._sleep(5_000_000)  # some milliseconds, in which the launches are queued
            times.append(self._one(many)[0] / TOGETHER)
        return median(times)

    def warm_up(self, work: Callable[[], object], budget: float) -> None:
        """Run heavy work until clocks have risen."""
        until = self.clock() + budget
        while self.clock() < until:
            work()
            self.wait()

    def wait(self) -> None:
        """Return when the device is done."""
        if not self.cpu:
            self._torch.accelerator.synchronize(self.device)

    def _one(self, work: Callable[[], object]) -> tuple[float, float]:
        if self.cpu:
            wall, cpu = self.clock(), self._processor_clock()
            work()
            wall, cpu = self.clock() - wall, self._processor_clock() - cpu
            return (cpu if self._single else wall), cpu
        begin, end = (self._torch.Event(self.device.type, enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        seconds = begin.elapsed_time(end) / 1000
        return seconds, seconds
