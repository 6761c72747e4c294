"""What to look for in a script: which steps, of which model, and what counts as a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OPTIMIZER, FORWARD = "optimizer", "forward"
UNITS = (OPTIMIZER, FORWARD)


@dataclass(frozen=True)
class Search:
    """A window of steps, first and last, counted from 0."""

    first: int
    last: int
    model: str | None = None
    """The class of the model, by its name or its dotted path; None is every model that runs."""
    per: str | None = None
    """What ends a step: `optimizer` or `forward`; None lets the loop decide."""

    @property
    def lead(self) -> int:
        """The step from which on the loop is marked: the one before the window shows what a usual step is."""
        return max(self.first - 1, 1)

    @property
    def wanted(self) -> str:
        """What is looked for, in words."""
        return "model with parameters" if self.model is None else f"module of class {self.model}"

    def admits(self, module: Any) -> bool:
        """True if a module called from outside every other one is a model: it is the one asked for, or has parameters."""
        if self.model is None:
            return next(module.parameters(), None) is not None
        kinds = type(module).__mro__
        return any(self.model in (kind.__name__, f"{kind.__module__}.{kind.__qualname__}") for kind in kinds)
