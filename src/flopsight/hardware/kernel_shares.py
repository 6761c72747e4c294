"""Shares of datasheet limits that training kernels and links reach, by generation of device; needs no torch."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from .peaks import Device

OTHER = "other"


@dataclass(frozen=True)
class Shares:
    """What kernels and links of a device reach; kernel_shares.toml says of what, and what was tuned."""

    products: float
    attention: float
    convolutions: float
    batch_norm: float
    memory: float
    between_nodes: float
    """Gbit/s of each GPU's network card."""
    nvlink: float
    network: float
    latency: float
    host: float
    overlap: float
    generation: str = ""
    tuned: str = ""


def shares_of(device: Device) -> Shares:
    """The shares of a device's generation; those of no generation in particular if the table does not have it."""
    table = _table()
    generation = next((name for name in table["generation"] if name in device.architecture), OTHER)
    named = "" if generation == OTHER else generation
    return Shares(**table["links"], **table["generation"][generation], generation=named)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("kernel_shares.toml").read_text(encoding="utf-8"))
