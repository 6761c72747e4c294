"""One thing that was looked at, and the whole report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

RUNS = ("tested", "unproven")
"""Standings of a torch on which flopsight runs."""


@dataclass(frozen=True)
class Checked:
    """One check: what was looked at, whether it is as it should be, and which figures need it."""

    group: str
    name: str
    fine: bool
    found: str
    touches: str


@dataclass(frozen=True)
class Examination:
    """Everything that was looked at on this machine."""

    flopsight: str
    torch: str
    python: str
    device: str
    standing: str
    """tested, unproven (newer than every release we know), too old, broken or missing."""
    checks: tuple[Checked, ...]

    @property
    def failed(self) -> tuple[Checked, ...]:
        """The checks that did not hold."""
        return tuple(check for check in self.checks if not check.fine)

    @property
    def fine(self) -> bool:
        """Whether every check held on a torch that can be watched."""
        return not self.failed and self.standing in RUNS

    def as_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {**asdict(self), "fine": self.fine}
