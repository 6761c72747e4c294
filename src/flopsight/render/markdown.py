"""A profile as Markdown, for notes and pull requests."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.folding import fold
from ..analysis.passes import to_depth, to_rows, without_idle
from ..analysis.tables import tree_rows
from ..tree import Profile
from .columns import figures
from .page import Column
from .summary import caveat_lines, coverage_lines, title, totals
from .tree import label, legend


def render(profile: Profile, *, depth: int | None = None, max_rows: int | None = 60, full: bool = False) -> str:
    """The summary and the module tree as tables."""
    root = to_depth(depth)(profile.root)
    if not full:
        root = to_rows(max_rows)(fold(without_idle(root)))
    rows = tree_rows(root)
    names = Column("module", tuple("&emsp;" * row.depth + escaped(label(row)) for row in rows), right=False)
    summary = [pair for group in totals(profile) for pair in group]
    blocks = [
        f"### {escaped(title(profile))}",
        grid([Column("", tuple(a for a, _ in summary), right=False), Column("", tuple(b for _, b in summary))]),
        grid([names, *figures(rows, trained=profile.trained)]),
        "  \n".join(
            escaped(line) for line in (*legend(rows, "markdown"), *coverage_lines(profile), *caveat_lines(profile))
        ),
    ]
    return "\n\n".join(blocks) + "\n"


def grid(columns: Sequence[Column]) -> str:
    """Columns as a Markdown table."""
    head = [column.title.strip() for column in columns]
    rules = ["---:" if column.right else ":---" for column in columns]
    rows = zip(*(column.cells for column in columns), strict=True)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rules, *rows))


def escaped(text: str) -> str:
    """Text in which Markdown sees no markup."""
    for sign in "\\`*_[]<>|":
        text = text.replace(sign, f"\\{sign}")
    return text
