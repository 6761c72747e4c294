"""Energy from the machine's own counters: NVML for a GPU, RAPL for a CPU; nothing is estimated.

A counter moves about every 100 ms, and NVML takes milliseconds to read it. So a thread reads it, and energy belongs
to all steps between two readings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import torch

from ...capture.time.clock import HOSTS

PERIOD = 1.0
"""Seconds between two readings."""
RAPL = Path("/sys/class/powercap")
Joules = Callable[[], float]


class EnergyMeter:
    """Joules since the last question, with the steps that they are of."""

    def __init__(self, read: Joules, steps: Callable[[], int]) -> None:
        self._read = read
        self._steps = steps
        self._taken = self._latest = (read(), steps())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flopsight energy", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._taken = self._latest = (self._read(), self._steps())
        self._thread.start()

    def take(self) -> tuple[float, int] | None:
        """Joules and steps from the last answer to the latest reading; None if there was none since."""
        (before, then), (now, steps) = self._taken, self._latest
        if steps == then or now <= before:
            return None
        self._taken = (now, steps)
        return now - before, steps - then

    def finish(self) -> None:
        """Read once more, and stop."""
        self._stop.set()
        self._thread.join(PERIOD)
        with suppress(Exception):
            self._latest = (self._read(), self._steps())

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            try:
                self._latest = (self._read(), self._steps())
            except Exception:
                return  # a counter that stops is absent from then on


def energy_counter(device: torch.device) -> Joules | None:
    """The counter of a device; None if the machine gives none."""
    with suppress(Exception):
        if device.type == "cuda":
            return _nvml(device)
        if device.type in HOSTS:
            return _rapl(sorted(RAPL.glob("intel-rapl:[0-9]")))
    return None


def _nvml(device: torch.device) -> Joules:
    import pynvml  # the package nvidia-ml-py

    pynvml.nvmlInit()
    name = str(torch.cuda.get_device_properties(device).uuid)
    handle = pynvml.nvmlDeviceGetHandleByUUID(name if name.startswith("GPU-") else f"GPU-{name}")
    pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)  # raises if this device has no counter
    return lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000


def _rapl(packages: Sequence[Path]) -> Joules | None:
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

    return read
