"""The table of devices, read from peaks.toml, which row a name stands for, and peaks that the user states; needs no torch."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ..errors import ConfigError
from .dtypes import TABLE_KEYS, table_keys, torch_name

MEMORY_SEEN = (0.88, 1.08)
"""What torch reports over the nameplate: ECC and reserves take up to a tenth, "GB" may mean GiB."""


@dataclass(frozen=True, slots=True)
class Rating:
    """A number with its pedigree; peaks.toml says what the grades mean."""

    value: float
    grade: str
    sources: tuple[str, ...]

    def times(self, factor: float) -> Rating:
        """The same pedigree for a part of the device."""
        return replace(self, value=self.value * factor)


@dataclass(frozen=True, slots=True)
class Link:
    """How a package reaches its peers, in bytes per second."""

    kind: str
    grade: str
    sources: tuple[str, ...]
    per_direction: float | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """One row of the table. Peaks, bandwidth and memory are those of one torch device, also if that is half a chip."""

    id: str
    name: str
    vendor: str
    architecture: str
    target: str
    one_torch_device_is: str
    peaks: Mapping[str, Rating]
    bandwidth: Rating
    memory: Rating | None = None
    memory_sizes: tuple[float, ...] = ()
    """Every size sold under this row's names."""
    names: tuple[str, ...] = ()
    shared_names: tuple[str, ...] = ()
    pattern: str = ""
    torch_devices: int = 1
    """Torch devices in the package that the table's figures describe."""
    compute_units: int | None = None
    torch_units: tuple[int, ...] = ()
    scales_with_units: bool = False
    l2: Rating | None = None
    last_level_cache: int | None = None
    interconnect: Link | None = None
    derivation: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""

    def bears(self, name: str) -> bool:
        """Whether the name is exactly one of this row's."""
        return _plain(name) in map(_plain, (self.id, self.name, *self.names, *self.shared_names))

    def resembles(self, name: str) -> bool:
        """Whether the whole name has the row's pattern: a longer name is another device."""
        return bool(self.pattern and re.fullmatch(self.pattern, name.strip(), re.IGNORECASE))

    def fits(self, compute_units: int | None, memory: int | None) -> bool:
        """Whether what torch reports of the device is not against this row; what is not known is not held against it."""
        if compute_units and self.torch_units and not self.scales_with_units and compute_units not in self.torch_units:
            return False
        low, high = MEMORY_SEEN
        return not (memory and self.memory_sizes) or any(low <= memory / size <= high for size in self.memory_sizes)

    def with_units(self, compute_units: int | None) -> Device:
        """The row for a part with that many units, if the name alone does not fix their number."""
        if not (self.scales_with_units and compute_units and self.torch_units):
            return self
        factor = compute_units / self.torch_units[0]
        peaks = {key: figure.times(factor) for key, figure in self.peaks.items()}
        return replace(self, peaks=peaks, torch_units=(compute_units,))


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A name that several rows bear; what torch reports of the device did not settle which."""

    name: str
    candidates: tuple[Device, ...]

    def __str__(self) -> str:
        """Who it may be."""
        return f"{self.name} may be any of {', '.join(f'{one.name} ({one.id})' for one in self.candidates)}"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a figure was read."""

    what: str
    where: str = ""


def lookup(name: str, *, compute_units: int | None = None, memory: int | None = None) -> Device | Ambiguous | None:
    """The row for a device: by exact name, then by pattern; compute units and bytes of memory tell variants apart.

    A name that is not in the table, or a device whose units or memory are not those of the row (a MIG slice, a
    partition, a cut-down part), gives None: never another device's figure.

    >>> lookup("NVIDIA H100", compute_units=114).id
    'h100-pcie'
    """
    named = [device for device in devices() if device.bears(name)] or [
        device for device in devices() if device.resembles(name)
    ]
    fitting = tuple(device.with_units(compute_units) for device in named if device.fits(compute_units, memory))
    if len(fitting) > 1:
        return Ambiguous(name, fitting)
    return fitting[0] if fitting else None


def peak(device: Device, dtype: object, *, tf32: bool = False, half_accumulation: bool = False) -> float | None:
    """Dense FLOP/s of matrix work in a dtype on one torch device; None if the table does not list it.

    `tf32`: float32 products may run as TF32. `half_accumulation`: float16 products may accumulate in float16.
    """
    keys = table_keys(torch_name(dtype), tf32=tf32, half_accumulation=half_accumulation)
    return next((device.peaks[key].value for key in keys if key in device.peaks), None)


@cache
def devices() -> tuple[Device, ...]:
    """Every row of the table, in its order."""
    return tuple(_device(row) for row in _table()["device"])


@cache
def sources() -> Mapping[str, Source]:
    """The full citation behind every key that a figure names."""
    return {key: Source(**citation) for key, citation in _table()["sources"].items()}


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("peaks.toml").read_text(encoding="utf-8"))


def _device(row: Mapping[str, Any]) -> Device:
    row = dict(row)
    share = 1 / row.get("torch_devices", 1)
    memory = dict(row.pop("memory", {}))
    sizes = (memory["value"], *memory.pop("also", ())) if memory else ()
    link = row.pop("interconnect", None)
    cache_figure = row.pop("l2", None)
    return Device(
        peaks={key: _figure(figure).times(share) for key, figure in row.pop("peak").items()},
        bandwidth=_figure(row.pop("bandwidth")).times(share),
        memory=_figure(memory).times(share) if memory else None,
        memory_sizes=tuple(size * share for size in sizes),
        l2=_figure(cache_figure) if cache_figure else None,
        interconnect=Link(link["kind"], link["grade"], tuple(link["sources"]), link.get("per_direction"))
        if link
        else None,
        names=tuple(row.pop("names", ())),
        shared_names=tuple(row.pop("shared_names", ())),
        torch_units=tuple(row.pop("torch_units", None) or filter(None, [row.get("compute_units")])),
        **row,
    )


def _figure(page: Mapping[str, Any]) -> Rating:
    return Rating(page["value"], page["grade"], tuple(page["sources"]))


def _plain(name: str) -> str:
    return " ".join(name.split()).lower()


VARIABLE = "FLOPSIGHT_PEAK_FLOPS"
SMALLEST = 1e6
"""Below this a number was surely meant in another unit: "989" for 989e12."""


def stated_peaks(peaks: Mapping[str, float] | str | None = None) -> dict[str, float]:
    """Dense FLOP/s by dtype, as the user states them: the argument, or else the environment variable.

    >>> stated_peaks("bf16=989e12")
    {'bfloat16': 989000000000000.0}
    """
    place = "peak_flops"
    if peaks is None:
        place, peaks = VARIABLE, os.environ.get(VARIABLE, "")
    pairs = peaks if isinstance(peaks, Mapping) else _split(peaks, place)
    stated: dict[str, float] = {}
    for dtype, value in pairs.items():
        stated |= dict.fromkeys(_alike(torch_name(dtype)), _rate(value, dtype, place))
    return stated


def _split(text: str, place: str) -> dict[str, str]:
    pairs = {}
    for part in filter(None, (part.strip() for part in text.replace(";", ",").split(","))):
        dtype, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f'{place} has {part!r} without a dtype. Write dtype=FLOP/s: {VARIABLE}="bf16=989e12".')
        pairs[dtype] = value
    return pairs


def _rate(value: object, dtype: str, place: str) -> float:
    try:
        rate = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        rate = math.nan
    if not SMALLEST <= rate < math.inf:
        raise ConfigError(
            f"{place} gives {dtype} a peak of {value}. State dense FLOP/s: {dtype}=989e12 is 989 TFLOP/s."
        )
    return rate


def _alike(dtype: str) -> list[str]:
    """Every float8 for "fp8": dtypes that share their rate in the table share a statement."""
    return [other for other, keys in TABLE_KEYS.items() if keys == TABLE_KEYS[dtype]]
