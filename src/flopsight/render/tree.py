"""The module tree: every row holds the figures of its subtree; stacks of identical blocks are one row."""

from __future__ import annotations

from collections.abc import Sequence

from .. import units
from ..analysis.folding import shortened
from ..analysis.headline import headline
from ..analysis.tables import TableRow, tree_rows
from ..results.profile import Profile
from ..results.records import OUTSIDE
from .columns import figures
from .page import INDENT, Column, Grid, Heading, Lines, Page
from .summary import caveat_lines, coverage_lines, times_of, title, total_lines

WORTH_A_ROW = ("flops", "backward_pass_flops", "activation_bytes")
"""Figures of which one is enough to draw what ran outside the modules."""


def page(
    profile: Profile, *, depth: int | None = None, max_rows: int | None = 100, full: bool = False, on: str | None = None
) -> Page:
    """What the tree view shows: down to `depth`, at most `max_rows` rows; `full` draws every module."""
    root = shortened(profile.root, depth, max_rows, full=full)
    rows = [row for row in tree_rows(root) if not _is_empty(row)]
    return [
        Heading(title(profile, on)),
        Lines(tuple(headline(profile, on))),
        tree_grid(rows, figures(rows, trained=profile.trained)),
        Lines((*legend(rows), *times_of(profile, on)), "dim"),
        Lines(total_lines(profile, full=full)),
        Lines(coverage_lines(profile), "green" if profile.coverage.complete else "yellow"),
        Lines(caveat_lines(profile), "yellow"),
    ]


def tree_grid(rows: Sequence[TableRow], columns: Sequence[Column]) -> Grid:
    """Columns beside the names of the modules, each as deep as it lies."""
    depths = tuple(row.depth for row in rows)
    names = tuple(INDENT * row.depth + label(row) for row in rows)
    short = tuple(INDENT * row.depth + (row.name or row.kind) + suffix(row) for row in rows)
    return Grid((Column("module", names, right=False, short=short, style="bold"), *columns), depths)


def label(row: TableRow) -> str:
    """`layer: ModuleList`, with what a reader must know beside it."""
    text = f"{row.name}: {row.kind}" if row.name and row.kind else row.name or row.kind
    if row.path == OUTSIDE:
        text = f"{OUTSIDE}: loss, glue"
    return text + suffix(row)


def suffix(row: TableRow) -> str:
    """Repetitions, calls, marks and hidden rows."""
    many, calls = row.times > 1 and bool(row.kind), row.calls // row.times
    parts = [
        f" x {row.times}" if many and row.first else "",
        f", {calls} calls{' each' if many else ''}" if calls > 1 and row.kind else "",
        f" [{row.mark}]" if row.mark else "",
        f" [{row.unknown} op call{'' if row.unknown == 1 else 's'} unknown]" if row.unknown else "",
        f" [+{row.hidden}]" if row.hidden and row.kind else "",
    ]
    return "".join(parts)


def legend(rows: Sequence[TableRow], format: str = "tree") -> tuple[str, ...]:
    """What the signs in the rows mean, for those that occur."""
    lines = []
    if any(row.times > 1 and row.kind for row in rows):
        lines.append("x n: n identical blocks in one row; their figures are summed, inside them too")
    left_out = sum(row.hidden for row in rows)
    if left_out:
        lines.append(
            f"[+n]: {units.count(left_out)} rows are left out, their figures are in the rows above them. "
            f'All rows: profile.render("{format}", full=True), or flopsight show FILE -f {format} --full'
        )
    return tuple(lines)


def _is_empty(row: TableRow) -> bool:
    """Whether nothing worth a row ran outside the modules."""
    return row.path == OUTSIDE and not (row.unknown or any(map(row.__getitem__, WORTH_A_ROW)))
