"""Shares of datasheet limits that training kernels and links reach, by generation of device; needs no torch."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ..results.ceilings import Ceilings
from . import op_families as kinds
from .peaks import Device

OTHER = "other"
KERNEL = 2e-6
"""Seconds that a kernel of a CUDA graph takes beside its work: to begin, to end, to wait for the one before."""
GROUPS = {
    kinds.MATMUL: "products",
    kinds.THIN: "products",
    kinds.ATTENTION: "attention",
    kinds.CONVOLUTION: "convolutions",
    kinds.GROUPED: "convolutions",
    kinds.BATCH_NORM: "batch_norm",
}
"""The share that a kind of op takes, or one that stands in for it; all others take that of memory."""
LIMITS = tuple(10 ** (power / 2) for power in range(-14, -3))
"""Limits of one call, in seconds, for which the share that it reaches is stated."""


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
    reads: float = 0.83
    """Of the bandwidth, if a kernel does nothing but read weights or keys and values."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Of that share, what some kinds of op reach."""
    tuned: str = ""

    def reached(self, kind: str) -> float:
        """The share of its limit that a kind of op reaches in a model that is not compiled."""
        known: str | None = kind
        while known is not None and known not in GROUPS:
            known = kinds.BROADER.get(known)
        group: float = getattr(self, GROUPS[known] if known else "memory")
        return group * self.parts.get(kind, 1.0)


def shares_of(device: Device) -> Shares:
    """The shares of a device's generation; those of no generation in particular if the table does not have it."""
    table = _table()
    generation = next((name for name in table["generation"] if name in device.architecture), OTHER)
    return Shares(**table["links"], **table["generation"][generation], parts=table["parts"])


def shared_ceilings(ceilings: Ceilings, shares: Shares, kernel: float = KERNEL) -> Ceilings:
    """A device's ceilings with the shares of its generation, as if they had been measured: what a prediction needs.

    `kernel` are the seconds of a kernel beside its work.
    """
    reached = {
        **{kind: shares.reached(kind) for kind in (*GROUPS, kinds.ODD, kinds.EXPERTS)},
        **dict.fromkeys((kinds.THIN, kinds.DECODING), shares.reads),
        kinds.POINTWISE: shares.memory,
    }
    points = {
        kind: tuple((limit, limit / (limit / share + kernel)) for limit in LIMITS) for kind, share in reached.items()
    }
    return replace(ceilings, efficiency=points, shortest_kernel=kernel)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("kernel_shares.toml").read_text(encoding="utf-8"))
