"""One thing that was looked at, and the whole examination, as a value and as lines of text."""

from __future__ import annotations

from collections.abc import Callable
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


def tried(group: str, name: str, touches: str, look: Callable[[], tuple[bool, str]]) -> Checked:
    """A check by a function that says whether all is fine, and what it found; one that raises failed."""
    try:
        fine, found = look()
    except Exception as problem:
        fine, found = False, f"{type(problem).__name__}: {problem}"
    return Checked(group, name, fine, found, touches)


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
        """The examination as plain values."""
        return {**asdict(self), "fine": self.fine}


STANDINGS = {
    "tested": "this release is tested",
    "unproven": "newer than every release that was tested: unproven, the checks below say what works",
    "too old": "too old",
    "broken": "cannot be imported",
    "missing": "not installed",
}


def lines(examination: Examination) -> list[str]:
    """What was found, check by check, and a verdict."""
    there = examination.torch != "none"
    page = [
        f"flopsight {examination.flopsight}, Python {examination.python}",
        f"torch {examination.torch}: {STANDINGS[examination.standing]}"
        if there
        else f"torch: {STANDINGS[examination.standing]}",
        *([f"device {examination.device}"] if examination.standing in RUNS else []),
    ]
    group = ""
    for check in examination.checks:
        if check.group != group:
            group = check.group
            page += ["", group]
        page.append(f"  {'ok  ' if check.fine else 'FAIL'}  {check.name:<20} {check.found}")
        if not check.fine:
            page.append(f"        this touches: {check.touches}")
    return [*page, "", verdict(examination)]


def verdict(examination: Examination) -> str:
    """One sentence for all of it."""
    if examination.fine:
        return "Everything works here."
    if examination.standing not in RUNS:
        return "Without a torch that works, flopsight opens saved profiles only: `show`, `diff`, `check`."
    touched = ", ".join(dict.fromkeys(check.touches for check in examination.failed))
    return f"{len(examination.failed)} of {len(examination.checks)} checks failed. Do not rely on: {touched}."
