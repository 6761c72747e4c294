"""Memory over a step: bytes alive by kind, at the points where it rises and falls most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .read_only import FixedTables

LASTING_FIRST = (
    "parameters", "buffers", "optimizer", "inputs", "kv cache", "gradients", "buckets", "gathered", "activations", "recomputed", "temporaries",
)  # fmt: skip
"""Kinds of memory from the lasting ones, which a chart has at its bottom, to the fleeting ones."""


@dataclass(frozen=True)
class MemoryCurve(FixedTables):
    """What was alive over a step, as columns with one value for each point; the highest point is the peak, exactly."""

    at: tuple[int, ...] = ()
    """Of each point, how many allocations and releases came before it."""
    kinds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By kind, the bytes alive at each point; the kinds are those of `Profile.at_peak`."""
    modules: tuple[str, ...] = ()
    """The module whose operator allocated last."""
    phases: tuple[str, ...] = ()
    """Its phase; empty before the first operator."""

    @cached_property
    def total(self) -> tuple[int, ...]:
        """Bytes alive at each point, all kinds together."""
        return tuple(map(sum, zip(*self.kinds.values(), strict=True))) or (0,) * len(self.at)

    @cached_property
    def stacked(self) -> tuple[str, ...]:
        """The kinds as a chart stacks them, from its bottom."""
        known = [kind for kind in LASTING_FIRST if kind in self.kinds]
        return (*known, *(kind for kind in self.kinds if kind not in known))

    @property
    def highest(self) -> int:
        """The number of the point that is the peak."""
        return self.total.index(max(self.total))
