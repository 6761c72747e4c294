"""What a notebook shows of a value: its headline, the heaviest rows with bars, and more to open; plain HTML, no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from .. import units
from ..analysis.folding import fold, shortened
from ..analysis.headline import headline
from ..analysis.tables import own_rows, tree_rows
from .columns import figures
from .page import Column, Grid, Heading, Lines, Page
from .summary import caveats, coverage_lines, title
from .tree import tree_grid

if TYPE_CHECKING:
    from ..analysis.compare import Comparison
    from ..results.job import Job
    from ..results.node import Node
    from ..results.profile import Profile
    from ..results.sweep import Sweep

MOST_ROWS = 40
FIRST_ROWS = 8
STYLE = (
    "<style>.flopsight table{border-collapse:collapse}.flopsight td,.flopsight th{text-align:right;padding:1px 8px;"
    "white-space:nowrap;border-bottom:1px solid #8883}.flopsight td:first-child,.flopsight th:first-child{text-align:left}"
    ".flopsight summary{cursor:pointer}.flopsight .note{color:#b45309}.flopsight .red{color:#c0362c}"
    ".flopsight .green{color:#1d7f46}.flopsight .bar{min-width:9em;text-align:left;background:linear-gradient(90deg,#56b4e9 var(--part),"
    "transparent 0) no-repeat 0 50%/100% 70%}</style>"
)
COLOURS = ("red", "green")
"""Styles of a terminal that a notebook shows too."""


def profile_html(profile: Profile) -> str:
    """What a profile says first, and its heaviest modules; opened, its tree, its coverage and its notes."""
    notes = "".join(f'<div class="note">{escape(text)}</div>' for text in caveats(profile))
    covered = "" if profile.coverage.complete else "<br>".join(map(escape, coverage_lines(profile)))
    first = "".join(f"<div>{escape(line)}</div>" for line in headline(profile))
    opened = _tree(profile.root, trained=profile.trained) + covered + notes
    top = f"<b>{escape(title(profile))}</b>{first}{_heaviest(profile)}"
    return f'<div class="flopsight">{STYLE}{top}{_details(f"{profile.one_line}", opened)}</div>'


def _heaviest(profile: Profile) -> str:
    """The modules that take most of the time, or of the work if nothing was timed: a bar is the share of the whole."""
    by = "latency" if profile.root.latency else "flops"
    rows = [row for row in own_rows(fold(profile.root), by) if row[by]][:FIRST_ROWS]
    if not rows:
        return ""
    names = Column("module", tuple(f"{row.path or row.name} {row.kind}".strip() for row in rows), right=False)
    columns = [
        column for column in figures(rows, trained=profile.trained) if column.title in ("params", "FLOPs", "latency")
    ]
    shares = [row.shares[by] or 0.0 for row in rows]
    return _table(Grid((names, *columns)), bars=shares)


def node_html(node: Node) -> str:
    """One module with what is below it."""
    return _card(node.one_line, _tree(node, trained=bool(node.backward.flops)))


def comparison_html(comparison: Comparison) -> str:
    """What changed, as a terminal shows it: what costs more is red, what costs less is green."""
    from .comparison import page

    return _card(comparison.one_line, draw(page(comparison)))


def job_html(job: Job) -> str:
    """The ranks of a job side by side."""
    from .job_page import ranks

    return _card(job.one_line, draw(ranks(job)))


def sweep_html(sweep: Sweep) -> str:
    """The points of a sweep, and how its modules grow."""
    from .sweep_page import page

    return _card(sweep.one_line, draw(page(sweep)))


def _tree(root: Node, *, trained: bool) -> str:
    rows = tree_rows(shortened(root, None, MOST_ROWS))
    return draw([tree_grid(rows, figures(rows, trained=trained))])


def draw(page: Page) -> str:
    """A page as HTML, in the colours that it has on a terminal."""
    return "".join(map(_part, page))


def _part(part: Heading | Lines | Grid) -> str:
    if isinstance(part, Heading):
        return f"<b>{escape(part.text)}</b>"
    if isinstance(part, Grid):
        return _table(part)
    styles = part.styles or (part.style,) * len(part.lines)
    return "".join(f"<div{_class(style)}>{escape(line)}</div>" for line, style in zip(part.lines, styles, strict=True))


def _table(grid: Grid, bars: Sequence[float] = ()) -> str:
    """Rows of cells; `bars` are shares that end each row."""
    head = "".join(f"<th>{escape(column.title)}</th>" for column in grid.columns)
    head += "<th>share</th><th></th>" if bars else ""
    ends = [f'<td>{units.percent(share)}</td><td class="bar" style="--part:{share:.1%}"></td>' for share in bars]
    body = []
    for place, (depth, cells) in enumerate(grid.rows()):
        styles = [_class(column.styles[place]) if column.styles else "" for column in grid.columns]
        name, *rest = (f"<td{style}>{escape(cell)}</td>" for style, cell in zip(styles, cells, strict=True))
        end = ends[place] if ends else ""
        body.append(f"<tr>{name.replace('>', '>' + '&emsp;' * depth, 1)}{''.join(rest)}{end}</tr>")
    return f"<table><tr>{head}</tr>{''.join(body)}</table>"


def _class(style: str) -> str:
    return f' class="{style}"' if style in COLOURS else ""


def _card(headline: str, inside: str) -> str:
    return f'<div class="flopsight">{STYLE}{_details(headline, inside)}</div>'


def _details(line: str, inside: str) -> str:
    return f"<details><summary>{escape(line)}</summary>{inside}</details>"
