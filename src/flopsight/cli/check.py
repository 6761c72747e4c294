"""`flopsight check`: hold a saved profile to a budget, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..config import read_budgets
from ..errors import CheckFailed, InputError
from ..files.store import load_profile
from . import options

PROJECT = Path("pyproject.toml")


def check(
    profile: options.ProfileFile,
    budget: Annotated[
        Path | None,
        typer.Option(
            "--budget",
            metavar="FILE",
            help='TOML or JSON: params = "26M", flops = "8.2G", latency = "5ms"; without it [tool.flopsight.budgets] in pyproject.toml.',
        ),
    ] = None,
) -> None:
    """Hold a saved profile to a budget; exit code 1 if it is over."""
    from ..analysis.budget import check as broken_budgets

    if budget is None and not PROJECT.exists():
        raise InputError(f"There is no {PROJECT} with [tool.flopsight.budgets] here; --budget FILE names another file.")
    budget = budget or PROJECT
    budgets = read_budgets(budget)
    loaded = load_profile(profile)
    broken = 0
    for name, allowed in budgets.items():
        complaints = broken_budgets(loaded, {name: allowed})
        broken += len(complaints)
        for line in complaints or [f"{name} keeps to {allowed}."]:
            print(f"{'FAILED' if complaints else 'ok':<8}{line}")
    if broken:
        raise CheckFailed(f"{profile} breaks {broken} of {len(budgets)} budgets in {budget}.")
