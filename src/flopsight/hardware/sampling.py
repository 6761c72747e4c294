"""Seconds of a piece of work on a device, as its ceiling needs them: warm clocks, cold caches, undisturbed samples."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import Any

SAMPLES = 12
FEWEST = 3
BUDGET = 1.0
"""Seconds after which no further sample of one piece of work is taken."""
WARM_UP = 0.5
"""Seconds of heavy work before the first sample: clocks rise under load."""
PREEMPTED = 1.15
"""Wall over CPU time, relative to the best sample, above which other processes had the cores."""
FLUSH = 256 << 20
"""Bytes that are written between samples, so that nothing is left of the last one in a cache."""
TOGETHER = 50
"""Short kernels that are timed as one."""


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

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch, self.device = torch, device
        self.cpu = device.type == "cpu"
        self._single = self.cpu and torch.get_num_threads() == 1
        """One thread's processor time is its time without other processes."""
        self.spread, self.dropped, self.taken = 0.0, 0, 0
        self._flush = torch.empty(FLUSH if not self.cpu else FLUSH // 2, dtype=torch.uint8, device=device)

    def least(self, work: Callable[[], object]) -> float:
        """The fastest undisturbed sample: a ceiling is what the device can reach, not what it reaches beside others."""
        return min(self._kept(work))

    def seconds(self, work: Callable[[], object], *, warm: bool = False) -> float:
        """The median of the undisturbed samples; `warm` leaves caches as they are."""
        return median(self._kept(work, warm=warm))

    def _kept(self, work: Callable[[], object], *, warm: bool = False) -> list[float]:
        for _ in range(3):
            work()
        taken: list[tuple[float, float]] = []
        begun = perf_counter()
        while len(taken) < SAMPLES and (len(taken) < FEWEST or perf_counter() - begun < BUDGET):
            if not warm:
                self._flush.zero_()
            taken.append(self._one(work))
        kept = undisturbed(taken)
        self.taken += len(taken)
        self.dropped += len(taken) - len(kept)
        middle = median(kept)
        ordered = sorted(kept)
        self.spread = max(self.spread, (ordered[(3 * len(kept) - 1) // 4] - ordered[len(kept) // 4]) / middle)
        return kept

    def short(self, work: Callable[[], object]) -> float:
        """Seconds of a short kernel: many in a row, on a device behind a pause, so that the host is ahead of it."""
        if self.cpu:
            return self.seconds(lambda: [work() for _ in range(5)], warm=True) / 5
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

    def warm_up(self, work: Callable[[], object]) -> None:
        """Run heavy work until clocks have risen."""
        begun = perf_counter()
        while perf_counter() - begun < WARM_UP:
            work()
            self.wait()

    def wait(self) -> None:
        """Return when the device is done."""
        if not self.cpu:
            self._torch.accelerator.synchronize(self.device)

    def _one(self, work: Callable[[], object]) -> tuple[float, float]:
        if self.cpu:
            wall, cpu = perf_counter(), process_time()
            work()
            wall, cpu = perf_counter() - wall, process_time() - cpu
            return (cpu if self._single else wall), cpu
        begin, end = (self._torch.Event(self.device.type, enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        seconds = begin.elapsed_time(end) / 1000
        return seconds, seconds
