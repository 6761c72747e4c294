"""The modules that do the work, heaviest first, each with its own figures, so that work adds up; then the ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import units
from ..analysis.figures import BOOK, Value
from ..analysis.folding import fold
from ..analysis.passes import to_depth
from ..analysis.tables import TableRow, op_totals, own_rows
from ..results.costs import OpRow, known_sum
from ..results.profile import Profile
from .columns import figures
from .page import Column, Grid, Heading, Lines, Page
from .summary import caveat_lines, coverage_lines, title, total_lines
from .tree import suffix

MOST_OPS = 15


def page(
    profile: Profile, *, sort: str = "flops", depth: int | None = None, max_rows: int | None = 40, full: bool = False
) -> Page:
    """What the table view shows, in the order `sort`; `full` draws every module and every op."""
    root = to_depth(depth)(profile.root)
    rows = own_rows(root if full else fold(root), sort)
    shown, left_out = (rows, 0) if full else capped(rows, max_rows)
    return [
        Heading(title(profile)),
        _modules(shown, trained=profile.trained),
        Lines(_legend(shown, left_out), "dim"),
        *operators(profile, full=full),
        Lines(total_lines(profile, full=full)),
        Lines(coverage_lines(profile), "green" if profile.coverage.complete else "yellow"),
        Lines(caveat_lines(profile), "yellow"),
    ]


def operators(profile: Profile, *, full: bool) -> Page:
    """The ops of all modules, heaviest first; none if nothing ran."""
    ops = op_totals(profile.root)
    more = len(ops) - MOST_OPS
    left_out = (f"{more} more ops; all with full=True",) if more > 0 and not full else ()
    return [_ops(ops if full else ops[:MOST_OPS], ops), Lines(left_out, "dim")] if ops else []


def capped(rows: Sequence[TableRow], most: int | None) -> tuple[list[TableRow], int]:
    """The first rows and, summed in one row, all others; and how many those are."""
    if most is None or len(rows) <= most:
        return list(rows), 0
    shown, rest = list(rows[: most - 1]), rows[most - 1 :]
    return [*shown, _sum(rest)], len(rest)


def _sum(rows: Sequence[TableRow]) -> TableRow:
    return replace(
        rows[0],
        path=f"({len(rows)} more)",
        name="",
        kind="",
        times=1,
        calls=sum(row.calls for row in rows),
        figures={key: _total(key, rows) for key in rows[0].figures},
        shares={key: known_sum(row.shares[key] for row in rows) for key in rows[0].shares},
        output_shapes=(),
        mark="",
        hidden=0,
        unknown=sum(row.unknown for row in rows),
    )


def _total(key: str, rows: Sequence[TableRow]) -> Value:
    """The sum of a figure: times that are known, but of numbers all must be."""
    values = [row[key] for row in rows]
    return None if None in values and not BOOK[key].is_time else known_sum(values)


def _modules(rows: Sequence[TableRow], *, trained: bool) -> Grid:
    # a flat row has no parent above it to say that it stands for several modules
    said = [suffix(replace(row, first=True)) for row in rows]
    paths = tuple(row.path or row.kind for row in rows)
    kinds = tuple(row.kind + more for row, more in zip(rows, said, strict=True))
    names = Column("module, by itself", paths, right=False, style="bold")
    return Grid((names, Column("kind", kinds, keep=75, right=False), *figures(rows, trained=trained)), clip_left=True)


def _legend(rows: Sequence[TableRow], left_out: int) -> tuple[str, ...]:
    lines = []
    if any(row.times > 1 for row in rows):
        lines.append("x n: the sum over n identical modules")
    if left_out:
        lines.append(
            f"{left_out} rows are summed in the last one. "
            'All rows: profile.render("table", full=True), or flopsight show FILE -f table --full'
        )
    return tuple(lines)


def _ops(ops: Sequence[OpRow], everything: Sequence[OpRow]) -> Grid:
    whole = sum(op.cost.flops for op in everything) or 1
    known = [op.status != "unknown" for op in ops]
    times = tuple("" if op.seconds is None else units.seconds(op.seconds) for op in ops)
    return Grid(
        (
            Column("op", tuple(op.op for op in ops), right=False, style="bold"),
            Column("phase", tuple(op.phase for op in ops), keep=3, right=False),
            Column("calls", tuple(units.count(op.calls) for op in ops), keep=4),
            Column("MACs", tuple(units.si(op.cost.macs) if ok else "?" for op, ok in zip(ops, known, strict=True)), keep=1),
            Column("FLOPs", tuple(units.si(op.cost.flops) if ok else "?" for op, ok in zip(ops, known, strict=True)), keep=6),
            Column("%", tuple(units.percent(op.cost.flops / whole) for op in ops), keep=5, style="dim"),
            Column("bytes", tuple(units.size(op.cost.bytes) for op in ops), keep=2),
            *((Column("time", times, keep=7, style="magenta"),) if any(times) else ()),
            Column("", tuple("" if op.status == "counted" else op.status for op in ops), keep=0, right=False),
        )
    )  # fmt: skip
