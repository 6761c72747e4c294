"""What a device can do at most, and what else the limits of a module depend on, as values that a profile keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from .read_only import FixedTables
from .timings import NOT_TIMED, Timing

DATASHEET, MEASURED = "datasheet", "measured"


@dataclass(frozen=True)
class Ceilings(FixedTables):
    """Rates of one device: matrix work by dtype, memory, links; where they come from is part of the value."""

    name: str = ""
    flops: Mapping[str, float] = field(default_factory=dict)
    """Dense FLOP/s of matrix work by torch dtype; `float32/cudnn` if convolutions may run as TF32 and products not."""
    bandwidth: float | None = None
    """Bytes per second between memory and the compute units, reads and writes together."""
    cache: int | None = None
    """Bytes of the last cache that all units share; data that fits may never reach memory."""
    cache_bandwidth: float | None = None
    """Bytes per second of data that stays in that cache, if it was measured."""
    memory: int | None = None
    """Bytes of memory."""
    link: float | None = None
    """Bytes per second to a peer, one direction."""
    source: str = DATASHEET
    """`datasheet`, or `measured` on this machine."""
    made: str = ""
    """When it was measured."""
    busy: float = 0.0
    """Largest spread of the samples that the figures are medians of, relative to the median."""
    host: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the host for a call, by kind: an op, a product, a view, a module, ...; see `hardware/host_calls.py`."""
    shortest_kernel: float | None = None
    """Seconds of a kernel that has next to nothing to do."""
    efficiency: Mapping[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)
    """By kind of op, pairs: limit of one call in seconds, and the share of the limit that such a call reaches."""

    @property
    def measured(self) -> bool:
        """Whether the figures were measured on this machine."""
        return self.source == MEASURED

    @property
    def short(self) -> bool:
        """Whether only products and memory were measured, in a few seconds."""
        return self.measured and not self.efficiency

    def peak(self, dtype: str, op: str = "") -> float | None:
        """FLOP/s of matrix work in a dtype; cuDNN's ops may have a rate of their own."""
        return self.flops.get(peak_key(self.flops, dtype, op))

    def ridge(self, dtype: str) -> float | None:
        """FLOPs per byte above which work in a dtype is bound by compute."""
        peak = self.peak(dtype)
        return peak / self.bandwidth if peak and self.bandwidth else None


def peak_key(peaks: Mapping[str, float], dtype: str, op: str = "") -> str:
    """The dtype, or its entry for cuDNN's ops, which may use TF32 if plain products may not."""
    special = f"{dtype}/cudnn"
    return special if special in peaks and ("conv" in op or "cudnn" in op) else dtype


def unit_name(peaks: Mapping[str, float], key: str) -> str:
    """What a key of the peaks stands for: the dtype, and whether torch may run it as TF32."""
    dtype, _, cudnn = key.partition("/")
    return f"{dtype} as TF32" if cudnn or (dtype == "float32" and "tf32" in peaks) else dtype


@dataclass(frozen=True)
class Conditions:
    """The part of a profile that its nodes know, so that `node.limit()` needs no profile. Never changed, only replaced."""

    device_name: str = ""
    dtype: str = ""
    """Of ops whose own dtype was not recorded."""
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    ceilings: Ceilings | None = None
    timing: Timing = NOT_TIMED
    trained: bool = False

    @cached_property
    def untimed(self) -> Conditions:
        """The same without the times of the step, as the modules below the root know them."""
        return replace(self, timing=NOT_TIMED)
