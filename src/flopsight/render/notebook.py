"""What a notebook shows of a value: one line that opens to a compact table; plain HTML, no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ..analysis.folding import shortened
from ..analysis.tables import tree_rows
from .columns import figures
from .page import Column
from .summary import caveats, coverage_lines, title
from .tree import label

if TYPE_CHECKING:
    from ..analysis.compare import Comparison
    from ..job import Job
    from ..node import Node
    from ..tree import Profile

MOST_ROWS = 40
STYLE = (
    "<style>.flopsight table{border-collapse:collapse}.flopsight td,.flopsight th{text-align:right;padding:1px 8px;"
    "white-space:nowrap;border-bottom:1px solid #8883}.flopsight td:first-child,.flopsight th:first-child{text-align:left}"
    ".flopsight summary{cursor:pointer}.flopsight .note{color:#b45309}</style>"
)


def profile_html(profile: Profile) -> str:
    """The headline of a profile; opened, its tree, its coverage and its notes."""
    notes = "".join(f'<div class="note">{escape(text)}</div>' for text in caveats(profile))
    covered = "" if profile.coverage.complete else "<br>".join(map(escape, coverage_lines(profile)))
    return _card(
        f"{title(profile)}: {profile.one_line}", _tree(profile.root, trained=profile.trained) + covered + notes
    )


def node_html(node: Node) -> str:
    """One module with what is below it."""
    return _card(node.one_line, _tree(node, trained=bool(node.backward.flops)))


def comparison_html(comparison: Comparison) -> str:
    """What changed, as the text view says it."""
    return _card(comparison.one_line, f"<pre>{escape(comparison.render())}</pre>")


def job_html(job: Job) -> str:
    """The ranks of a job side by side."""
    from .job import ranks

    return _card(job.one_line, f"<pre>{escape(ranks(job))}</pre>")


def _tree(root: Node, *, trained: bool) -> str:
    rows = tree_rows(shortened(root, None, MOST_ROWS))
    names = Column("module", tuple("\u2003" * row.depth + label(row) for row in rows), right=False)
    return _table([names, *figures(rows, trained=trained)])


def _table(columns: Sequence[Column]) -> str:
    head = "".join(f"<th>{escape(column.title)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for cells in zip(*(column.cells for column in columns), strict=True)
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _card(headline: str, inside: str) -> str:
    return f'<div class="flopsight">{STYLE}<details><summary>{escape(headline)}</summary>{inside}</details></div>'
