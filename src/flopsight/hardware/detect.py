"""Which device this is: what torch reports of it, the table's row for it, and the peaks that follow."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from . import peaks
from .dtypes import TABLE_KEYS
from .peaks import Ambiguous, Device, stated_peaks

CUDNN = "float32/cudnn"
"""Key of the rate that cuDNN's float32 ops run at, if torch lets them use TF32 and plain products not."""

UNITS = ("multi_processor_count", "max_compute_units", "gpu_eu_count")
"""What backends call the number of compute units in their device properties."""


@dataclass(frozen=True)
class Found:
    """A device as torch reports it, and what the table knows of it."""

    device: str
    name: str
    compute_units: int | None = None
    memory: int | None = None
    match: Device | Ambiguous | None = None
    stated: Mapping[str, float] = field(default_factory=dict)
    """Peaks by dtype that the user stated; they go before the table's."""
    tf32: frozenset[str] = frozenset()
    """Who may run float32 as TF32: `matmul`, `cudnn`."""
    half_accumulation: bool = False
    """Whether float16 products may accumulate in float16."""

    @property
    def known(self) -> Device | None:
        """The table's row, if there is exactly one."""
        return self.match if isinstance(self.match, Device) else None

    def peak(self, dtype: str, *, cudnn: bool = False) -> float | None:
        """Dense FLOP/s of matrix work in a torch dtype, under torch's present settings; None if not known."""
        tf32 = dtype == "float32" and ("cudnn" if cudnn else "matmul") in self.tf32
        if tf32 and "tf32" in self.stated:
            return self.stated["tf32"]
        if dtype in self.stated:
            return self.stated[dtype]
        if self.known is None:
            return None
        return peaks.peak(self.known, dtype, tf32=tf32, half_accumulation=self.half_accumulation)

    def peak_flops(self) -> dict[str, float]:
        """Every known peak by torch dtype, as a profile keeps them.

        `tf32` is there only if plain float32 products may run as TF32, the cuDNN entry only if it differs.
        """
        rates = {dtype: self.peak(dtype) for dtype in TABLE_KEYS}
        rates[CUDNN] = self.peak("float32", cudnn=True)
        if rates[CUDNN] == rates["float32"]:
            del rates[CUDNN]
        if "matmul" not in self.tf32:
            del rates["tf32"]
        return {dtype: rate for dtype, rate in rates.items() if rate}


def detect(device: Any = None, *, peak_flops: Mapping[str, float] | str | None = None) -> Found:
    """What device this is; without one named, the accelerator that torch would use, or the CPU.

    `peak_flops` states dense peaks, `{"bf16": 989e12}`; so does the environment variable FLOPSIGHT_PEAK_FLOPS.
    """
    import torch

    stated = stated_peaks(peak_flops)
    place = _place(torch, device)
    if place.type in ("cpu", "meta"):
        name = cpu_name() if place.type == "cpu" else "meta"
        return Found(str(place), name, stated=stated)
    name, compute_units, memory = _properties(torch, place)
    match = peaks.lookup(name, compute_units=compute_units, memory=memory)
    tf32, half = _settings(torch, place)
    return Found(str(place), name, compute_units, memory, match, stated, tf32, half)


def cpu_name() -> str:
    """The processor's name. There is no peak for it: it depends on clocks that cannot be read reliably."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _place(torch: Any, device: Any) -> Any:
    if device is None:
        return (torch.accelerator.is_available() and torch.accelerator.current_accelerator()) or torch.device("cpu")
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as problem:
        raise InputError(f"torch knows no device {device!r}. Name one like cuda:0, mps or cpu.") from problem


def _properties(torch: Any, place: Any) -> tuple[str, int | None, int | None]:
    """Name, compute units and bytes of memory, as the backend tells them."""
    try:
        if place.type == "mps":
            return _apple(torch)
        backend = torch.get_device_module(place.type)
        index = place.index if place.index is not None else backend.current_device()
        facts = backend.get_device_properties(index)
    except (AssertionError, AttributeError, ImportError, RuntimeError) as problem:
        said = str(problem).rstrip(".")
        raise InputError(
            f"This torch ({torch.__version__}) cannot use {place}: {said}. `flopsight device cpu` shows the processor."
        ) from problem
    units = next((getattr(facts, name) for name in UNITS if hasattr(facts, name)), None)
    return str(facts.name), units, getattr(facts, "total_memory", None)


def _apple(torch: Any) -> tuple[str, int | None, int | None]:
    if not torch.backends.mps.is_available():
        raise RuntimeError("there is no Apple GPU here, or this torch is built without it")
    return torch.backends.mps.get_name(), torch.backends.mps.get_core_count(), None


def _settings(torch: Any, place: Any) -> tuple[frozenset[str], bool]:
    """Who may use TF32, and whether float16 may accumulate in float16."""
    if place.type != "cuda":
        return frozenset(), False
    return tf32_users(torch), half_accumulation(torch)


# -- how torch trades precision for speed on a GPU, under the names that each release gives the settings


def tf32_users(torch: Any) -> frozenset[str]:
    """Who may run float32 as TF32: `matmul`, `cudnn`. MIOpen has no TF32."""
    homes = {"matmul": torch.backends.cuda.matmul}
    if not torch.version.hip:
        cudnn = torch.backends.cudnn
        homes["cudnn"] = getattr(cudnn, "conv", cudnn)  # cuDNN's own flag, to go with 2.8
    return frozenset(who for who, home in homes.items() if _tf32(home))


def half_accumulation(torch: Any) -> bool:
    """Whether float16 products may accumulate in float16; torch has the setting since 2.7."""
    return bool(getattr(torch.backends.cuda.matmul, "allow_fp16_accumulation", False))


@contextmanager
def tf32_products(torch: Any, place: Any, *, allowed: bool) -> Iterator[None]:
    """Float32 products as TF32, or not; as it was afterwards."""
    if place.type != "cuda":
        yield
        return
    home = torch.backends.cuda.matmul
    name, value = ("fp32_precision", "tf32" if allowed else "ieee") if _has_names(home) else ("allow_tf32", allowed)
    before = getattr(home, name)
    setattr(home, name, value)
    try:
        yield
    finally:
        setattr(home, name, before)


def _tf32(home: Any) -> bool:
    return home.fp32_precision == "tf32" if _has_names(home) else bool(home.allow_tf32)


def _has_names(home: Any) -> bool:
    """Whether a precision is set by name; before 2.9 there is a flag instead. To go with 2.8."""
    return hasattr(home, "fp32_precision")
