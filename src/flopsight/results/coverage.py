"""How much of what ran is accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .read_only import FixedTables


@dataclass(frozen=True, slots=True)
class UnknownOp:
    """An op that has no formula: what is missing from the totals."""

    calls: int
    """How often it ran."""
    modules: tuple[str, ...] = ()
    """Paths of the modules that it ran in."""
    bytes: int = 0
    """What its calls moved: inputs and outputs."""
    why: str = ""
    """Why it is unknown, and what to do."""
    failed: bool = False
    """Whether it has a formula, which raised or returned no cost; `why` says how."""


@dataclass(frozen=True)
class Coverage(FixedTables):
    """How much of what ran is accounted for: op calls by name, counted, free of arithmetic, or unknown."""

    counted: Mapping[str, int] = field(default_factory=dict)
    """Calls of ops with a formula, by op."""
    free: Mapping[str, int] = field(default_factory=dict)
    """Calls of ops that compute nothing, such as views, by op."""
    unknown: Mapping[str, UnknownOp] = field(default_factory=dict)
    """Ops without a formula: their arithmetic is missing from the totals."""
    bytes_known: int = 0
    """Bytes moved by the ops that are not unknown."""

    @property
    def calls(self) -> int:
        """Every op call seen."""
        return sum(self.counted.values()) + sum(self.free.values()) + self.unknown_calls

    @property
    def unknown_calls(self) -> int:
        """Op calls without a formula."""
        return sum(op.calls for op in self.unknown.values())

    @property
    def share(self) -> float:
        """Share of op calls accounted for."""
        return 1 - self.unknown_calls / self.calls if self.calls else 1.0

    @property
    def bytes_share(self) -> float:
        """Share of the bytes moved that accounted ops moved."""
        unknown = sum(op.bytes for op in self.unknown.values())
        return self.bytes_known / (self.bytes_known + unknown) if unknown else 1.0

    @property
    def complete(self) -> bool:
        """Whether nothing is unknown."""
        return not self.unknown


NOTHING_RAN = Coverage()
