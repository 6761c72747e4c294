"""The report as lines of text."""

from __future__ import annotations

from .checkup import RUNS, Examination

STANDINGS = {
    "tested": "this release is tested",
    "unproven": "newer than every release that was tested: unproven, the checks below say what works",
    "too old": "too old",
    "broken": "cannot be imported",
    "missing": "not installed",
}


def lines(report: Examination) -> list[str]:
    """What was found, check by check, and a verdict."""
    there = report.torch != "none"
    page = [
        f"flopsight {report.flopsight}, Python {report.python}",
        f"torch {report.torch}: {STANDINGS[report.standing]}" if there else f"torch: {STANDINGS[report.standing]}",
        *([f"device {report.device}"] if report.standing in RUNS else []),
    ]
    group = ""
    for check in report.checks:
        if check.group != group:
            group = check.group
            page += ["", group]
        page.append(f"  {'ok  ' if check.fine else 'FAIL'}  {check.name:<20} {check.found}")
        if not check.fine:
            page.append(f"        this touches: {check.touches}")
    return [*page, "", verdict(report)]


def verdict(report: Examination) -> str:
    """One sentence for all of it."""
    if report.fine:
        return "Everything works here."
    if report.standing not in RUNS:
        return "Without a torch that works, flopsight opens saved profiles only: `show`, `diff`, `check`."
    touched = ", ".join(dict.fromkeys(check.touches for check in report.failed))
    return f"{len(report.failed)} of {len(report.checks)} checks failed. Do not rely on: {touched}."
