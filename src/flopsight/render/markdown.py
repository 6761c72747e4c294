"""A profile as Markdown, for notes and pull requests."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..analysis.folding import fold
from ..analysis.passes import to_depth, to_rows, without_idle
from ..analysis.tables import tree_rows
from ..results.profile import Profile
from .columns import figures
from .page import Column
from .summary import caveat_lines, coverage_lines, title, totals
from .tree import label, legend

_MARKUP = re.compile(r"[\\`*_\[\]>|]|<(?!\d)")
"""A `<` before a digit is no markup: `<0.1%`."""
INDENT = "\u2003"
"""A wide space, which no escaped name holds: it does not print."""


def render(profile: Profile, *, depth: int | None = None, max_rows: int | None = 60, full: bool = False) -> str:
    """The summary and the module tree as tables."""
    root = to_depth(depth)(profile.root)
    if not full:
        root = to_rows(max_rows)(fold(without_idle(root)))
    rows = tree_rows(root)
    names = Column("module", tuple(INDENT * row.depth + label(row) for row in rows), right=False)
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
    """Columns as a Markdown table; nothing in a cell is markup."""
    head = [column.title.strip() for column in columns]
    rules = ["---:" if column.right else ":---" for column in columns]
    rows = zip(*(column.cells for column in columns), strict=True)
    cells = ([_cell(cell) for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rules, *cells))


def _cell(text: str) -> str:
    """Escaped, its indent kept."""
    bare = text.lstrip(INDENT)
    return "&emsp;" * (len(text) - len(bare)) + escaped(bare)


def escaped(text: str) -> str:
    """Text in which Markdown sees no markup."""
    return _MARKUP.sub(r"\\\g<0>", text)
