"""Several profiles as one table: a row a model, for papers and READMEs."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.figures import shown
from ..errors import check_known
from ..results.profile import Profile
from . import latex, markdown
from .columns import chosen
from .page import Column, Grid
from .plain import plain

FORMATS = ("table", "markdown", "latex")


def render(profiles: Sequence[Profile], names: Sequence[str], format: str = "table", columns: str | None = None) -> str:
    """The models in the order given, their figures in columns: all, or those that `columns` names."""
    check_known(format, FORMATS, f"Several profiles cannot be drawn as {format}", "Formats:")
    values = {figure: [figure.telling(profile) for profile in profiles] for figure in shown("models")}
    found = [
        Column(figure.label, tuple("-" if value is None else figure.text(value) for value in row))
        for figure, row in values.items()
        if (figure.unit == "count" and any(value is not None for value in row)) or any(row)
    ]
    table = Grid((
        Column("profile", tuple(names), right=False),
        Column("model", tuple(profile.root.kind for profile in profiles), right=False),
        *chosen(found, columns),
    ))  # fmt: skip
    if format == "table":
        return plain([table])
    return latex.grid(table) if format == "latex" else markdown.grid(table) + "\n"
