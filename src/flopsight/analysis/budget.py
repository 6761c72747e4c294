"""Does a profile keep to a budget? `{"params": "26M", "flops": "8.2G"}`, each value the most (or least) allowed."""

from __future__ import annotations

from collections.abc import Mapping

from ..results.profile import Profile
from .figures import UNITS, figure


def parse_budget(budget: Mapping[str, str | float]) -> dict[str, float]:
    """Every limit as a number; a name that no figure has, or a limit that is not a quantity, is refused."""
    return {name: UNITS[figure(name).unit].parse(allowed) for name, allowed in budget.items()}


def check(profile: Profile, budget: Mapping[str, str | float]) -> list[str]:
    """One sentence for every figure that is over its budget, or that the profile does not have; none if all hold."""
    broken = []
    for name, limit in parse_budget(budget).items():
        known = figure(name)
        value = known.read(profile)
        if value is None:
            broken.append(f"{name} is not in the profile, so its budget of {known.text(limit)} cannot be checked.")
        elif known.more_is_better and value < limit:
            broken.append(f"{name} is {_exactly(known.text(value), value)}, below the {known.text(limit)} asked for.")
        elif not known.more_is_better and value > limit:
            broken.append(f"{name} is {_exactly(known.text(value), value)}, over the budget of {known.text(limit)}.")
    return broken


def _exactly(text: str, value: float) -> str:
    """Whole numbers with all their digits too: rounded, a figure just over its budget would look equal to it."""
    return f"{text} ({value:,})" if isinstance(value, int) and value >= 1000 else text
