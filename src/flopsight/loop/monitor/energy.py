"""Energy from the machine's own counters: NVML for a GPU, RAPL for a CPU; nothing is estimated.

A counter moves about every 100 ms, and NVML takes milliseconds to read it. So a thread reads it, and energy belongs
to all steps between two readings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from ...capture.time.clock import HOSTS

PERIOD = 1.0
"""Seconds between two readings."""
RAPL = Path("/sys/class/powercap")
Joules = Callable[[], float]


@dataclass(frozen=True)
class Counter:
    """The energy counter of a device."""

    read: Joules
    idle_watts: float | None = None
    """Power of the device while it had nothing to do; None if that was not seen."""


class EnergyMeter:
    """Joules since the last question, with the steps that they are of.

    What is used between two readings belongs to the steps that ended between them. If the loop also did something else
    there, a validation say, nothing tells the one from the other, and the span belongs to no step.
    """

    def __init__(self, counter: Counter, steps: Callable[[], int], pauses: Callable[[], int]) -> None:
        """`pauses` counts what the loop does outside its steps."""
        self.idle_watts = counter.idle_watts
        self._read = counter.read
        self._steps, self._pauses = steps, pauses
        self._last = (counter.read(), steps(), pauses())
        self._joules, self._metered = 0.0, 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flopsight energy", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def take(self) -> tuple[float, int] | None:
        """Joules and steps from the last answer to the latest reading; None if there was none since."""
        if not self._metered:
            return None
        with self._lock:
            found = self._joules, self._metered
            self._joules, self._metered = 0.0, 0
        return found

    def look(self) -> None:
        """Read the counter."""
        joules, steps, pauses = now = self._read(), self._steps(), self._pauses()
        before, then, paused = self._last
        if steps == then and pauses == paused:
            return  # a step under way is not over yet: what it uses is read with its end
        self._last = now
        if pauses == paused and joules > before:
            with self._lock:
                self._joules += joules - before
                self._metered += steps - then

    def finish(self) -> None:
        """Read once more, and stop."""
        self._stop.set()
        self._thread.join(PERIOD)
        with suppress(Exception):
            self.look()

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            try:
                self.look()
            except Exception:
                return  # a counter that stops is absent from then on


def energy_counter(device: torch.device) -> Counter | None:
    """The counter of a device; None if the machine gives none."""
    with suppress(Exception):
        if device.type == "cuda":
            return _nvml(device)
        if device.type in HOSTS:
            return _rapl(sorted(RAPL.glob("intel-rapl:[0-9]")))
    return None


def _nvml(device: torch.device) -> Counter:
    import pynvml  # the package nvidia-ml-py

    pynvml.nvmlInit()
    name = str(torch.cuda.get_device_properties(device).uuid)
    handle = pynvml.nvmlDeviceGetHandleByUUID(name if name.startswith("GPU-") else f"GPU-{name}")
    pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)  # raises if this device has no counter
    idle = None
    with suppress(Exception):  # the driver's own averages, over up to a second
        if pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == 0:
            idle = pynvml.nvmlDeviceGetPowerUsage(handle) / 1000
    return Counter(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000, idle)


def _rapl(packages: Sequence[Path]) -> Counter | None:
    files = [package / "energy_uj" for package in packages]
    ranges = [int((package / "max_energy_range_uj").read_text(encoding="ascii")) for package in packages]
    last = [int(file.read_text(encoding="ascii")) for file in files]
    turns = [0] * len(files)
    if not files:
        return None

    def read() -> float:
        for at, file in enumerate(files):
            now = int(file.read_text(encoding="ascii"))
            turns[at] += now < last[at]  # the counter has begun anew
            last[at] = now
        return sum(now + turn * most for now, turn, most in zip(last, turns, ranges, strict=True)) / 1e6

    return Counter(read)
