"""What work costs: of one op, of a phase, of all calls of an op in a module."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from .records import PHASES, Shape

Key = TypeVar("Key", bound=Hashable)
Sum = TypeVar("Sum", bound=Any)


def known_sum(values: Iterable[float | None]) -> float | None:
    """The sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def summed(parts: Iterable[tuple[Key, Sum]]) -> dict[Key, Sum]:
    """Parts with the same key added up, in the order in which keys come first."""
    found: dict[Key, Sum] = {}
    for key, part in parts:
        found[key] = found[key] + part if key in found else part
    return found


@dataclass(frozen=True, slots=True)
class Cost:
    """Multiply-accumulates, floating-point operations and bytes moved; see docs/conventions.md."""

    macs: int = 0
    """Multiply-accumulates of products: matrix multiplications, convolutions, attention."""
    flops: int = 0
    """Two for every MAC, if not stated."""
    bytes: int = 0
    """Every input read once and every output written once, if a formula does not state them."""
    skipped_macs: int = 0
    """MACs that a causal kernel can leave out; `macs` counts attention dense."""
    recompute_macs: int = 0
    """Those of `macs` with which a kernel repeats forward work: a fused attention's backward forms the scores anew."""

    def __post_init__(self) -> None:
        if self.macs and not self.flops:
            object.__setattr__(self, "flops", 2 * self.macs)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.macs + other.macs, self.flops + other.flops, self.bytes + other.bytes,
                    self.skipped_macs + other.skipped_macs, self.recompute_macs + other.recompute_macs)  # fmt: skip

    def __mul__(self, times: int) -> Cost:
        return Cost(self.macs * times, self.flops * times, self.bytes * times,
                    self.skipped_macs * times, self.recompute_macs * times)  # fmt: skip

    @property
    def causal_macs(self) -> int:
        """MACs with the masked half of causal attention left out."""
        return self.macs - self.skipped_macs

    @property
    def causal_flops(self) -> int:
        """FLOPs with the products of the masked half of causal attention left out."""
        return self.flops - 2 * self.skipped_macs

    @property
    def intensity_step(self) -> float | None:
        """Equal for costs whose MACs per byte are within about 1 %: what binds one of them binds their sum."""
        if not self.causal_macs:
            return None
        return round(64 * math.log2(self.causal_macs / self.bytes)) if self.bytes else math.inf


FREE = Cost()
ACROSS = "across"
"""The layout of a softmax over another dimension than the last."""


@dataclass(frozen=True)
class Phases:
    """Costs by the part of a training step in which they arose."""

    forward: Cost = FREE
    """The forward."""
    backward: Cost = FREE
    """The backward, without what is recomputed in it."""
    recompute: Cost = FREE
    """Forward work that a checkpoint repeats in the backward."""
    optimizer: Cost = FREE
    """The step of the optimizer."""

    def __add__(self, other: Phases) -> Phases:
        return Phases(*(getattr(self, phase) + getattr(other, phase) for phase in PHASES))

    @property
    def macs(self) -> int:
        """Forward MACs."""
        return self.forward.macs

    @property
    def flops(self) -> int:
        """Forward FLOPs."""
        return self.forward.flops

    @property
    def bytes(self) -> int:
        """Forward bytes, unfused."""
        return self.forward.bytes

    @property
    def total(self) -> Cost:
        """All phases together."""
        return self.forward + self.backward + self.recompute + self.optimizer


NO_WORK = Phases()


class Worked:
    """What has costs by phase: a module with all its submodules, or the whole model."""

    @property
    def _phases(self) -> Phases:
        raise NotImplementedError

    @property
    def forward(self) -> Cost:
        """Cost of the forward."""
        return self._phases.forward

    @property
    def backward(self) -> Cost:
        """Cost of the backward, as autograd ran it; nothing if none ran."""
        return self._phases.backward

    @property
    def recompute(self) -> Cost:
        """Forward work that checkpointing did again during backward."""
        return self._phases.recompute

    @property
    def optimizer(self) -> Cost:
        """Cost of the optimizer's step; of a module, on its parameters."""
        return self._phases.optimizer

    @property
    def macs(self) -> int:
        """Forward MACs."""
        return self._phases.macs

    @property
    def flops(self) -> int:
        """Forward FLOPs."""
        return self._phases.flops


@dataclass(frozen=True, slots=True)
class OpRow:
    """All calls of one op in one module and phase that ran in one dtype with about the same MACs per byte."""

    op: str
    """Namespace and name: `aten.mm`."""
    phase: str
    """forward, backward, recompute or optimizer."""
    calls: int
    """How often it ran."""
    cost: Cost = FREE
    """Of all calls together."""
    status: str = "counted"
    """counted, free or unknown."""
    shapes: tuple[tuple[Shape, ...], ...] = ()
    """Input shapes of its calls, the distinct ones, at most a few."""
    dtype: str = ""
    """The dtype its arithmetic ran in; calls in several dtypes make several rows."""
    kind: str = ""
    """What torch knows of the op: pointwise, reduction, copy, matrix, ...; see `records.KINDS`."""
    seconds: float | None = None
    """Measured time of its calls: of their kernels on a device, of the host's op in a traced run on a CPU."""
    layout: str = ""
    """`channels_first` or `channels_last`: how the input of a convolution lies in memory; `across`: a softmax that does not run
    over the last dimension."""
    repeated: int = 0
    """Calls that did what an earlier one had done: the same op on the same values. Looked for if memory is followed."""
    repeated_bytes: int = 0
    """What those calls moved; 0 with `repeated` in profiles of older versions."""

    def __add__(self, other: OpRow) -> OpRow:
        """Both rows, of the same op, as one."""
        shapes = self.shapes if self.shapes == other.shapes else tuple(dict.fromkeys(self.shapes + other.shapes))
        return OpRow(self.op, self.phase, self.calls + other.calls, self.cost + other.cost, self.status, shapes, self.dtype,
                     self.kind, known_sum((self.seconds, other.seconds)), self.layout, self.repeated + other.repeated,
                     self.repeated_bytes + other.repeated_bytes)  # fmt: skip
