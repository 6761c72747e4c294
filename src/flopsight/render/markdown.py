"""A profile as Markdown, for notes and pull requests."""

from __future__ import annotations

import re

from ..analysis.folding import fold
from ..analysis.passes import to_depth, to_rows, without_idle
from ..analysis.tables import tree_rows
from ..results.profile import Profile
from .columns import figures
from .page import Column, Grid, Heading, Lines, Page
from .summary import caveat_lines, coverage_lines, title, totals
from .tree import legend, tree_grid

MARKUP = re.compile(r"[\\`*_\[\]>|]|<(?!\d)")
"""A `<` before a digit is not markup: `<0.1%`."""


def render(profile: Profile, *, depth: int | None = None, max_rows: int | None = 60, full: bool = False) -> str:
    """The summary and the module tree as tables."""
    root = to_depth(depth)(profile.root)
    if not full:
        root = to_rows(max_rows)(fold(without_idle(root)))
    rows = tree_rows(root)
    summary = zip(*(pair for group in totals(profile) for pair in group), strict=True)
    return draw([
        Heading(title(profile)),
        Grid(tuple(Column("", cells, right=place > 0) for place, cells in enumerate(summary))),
        tree_grid(rows, figures(rows, trained=profile.trained)),
        Lines((*legend(rows, "markdown"), *coverage_lines(profile), *caveat_lines(profile))),
    ])  # fmt: skip


def draw(page: Page) -> str:
    """A page as Markdown."""
    return "\n\n".join(filter(None, map(_block, page))) + "\n"


def _block(part: Heading | Lines | Grid) -> str:
    if isinstance(part, Grid):
        return grid(part)
    return f"### {escaped(part.text)}" if isinstance(part, Heading) else "  \n".join(map(escaped, part.lines))


def grid(table: Grid) -> str:
    """A Markdown table; nothing in a cell is markup."""
    head = [column.title.strip() for column in table.columns]
    rules = ["---:" if column.right else ":---" for column in table.columns]
    rows = (["&emsp;" * depth + escaped(name), *map(escaped, rest)] for depth, (name, *rest) in table.rows())
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rules, *rows))


def escaped(text: str) -> str:
    """Text in which Markdown sees no markup."""
    return MARKUP.sub(r"\\\g<0>", text)
