"""What a change costs, as a comment on a pull request: a verdict, the modules that changed most, the rest to open."""

from __future__ import annotations

from .. import units
from ..analysis.compare import Comparison
from ..files.printable import one_line, printable
from .comparison import Row, changed_rows, figure_grid, module_lines, notes, verdict
from .markdown import escaped, grid
from .page import Column, Grid
from .summary import about

MOST = 5
"""Modules in the comment's table."""
SHARED = "share: of all FLOPs, parameters or saved activations, whichever changes most."


def comment(comparison: Comparison) -> str:
    """The comment; its first line is a mark by which a workflow finds it again."""
    model = one_line(comparison.after.root.kind)
    rows = changed_rows(comparison)
    blocks = [
        f"<!-- flopsight diff of {model.replace('--', '')} -->\n### What this changes in {escaped(model)}",
        f"**{escaped(verdict(comparison))}**",
        *([f"{grid(_modules(rows[:MOST]))}\n\n<sub>{SHARED}</sub>"] if rows else []),
        *_details(comparison, len(rows)),
    ]
    return "\n\n".join(blocks) + "\n"


def _modules(rows: list[Row]) -> Grid:
    return Grid((
        Column("module", tuple(row.where for row in rows), right=False),
        Column("change", tuple(f"{row.verb}: {row.brief}" if row.brief else row.verb for row in rows), right=False),
        Column("FLOPs of the step", tuple(_signed(row.flops) for row in rows)),
        Column("params", tuple(_signed(row.params) for row in rows)),
        Column("share", tuple(f"{row.weight:+.1%}" for row in rows)),
    ))  # fmt: skip


def _signed(more: float) -> str:
    return f"{'+' if more > 0 else '-'}{units.si(abs(more))}" if more else "="


def _details(comparison: Comparison, number: int) -> list[str]:
    """What opens with a click: every figure, every module, and where both profiles were made."""
    items = [f"- {escaped(printable(text))}" for text, _ in module_lines(comparison)]
    said = f"Every figure{f', {number} changed module' + ('' if number == 1 else 's') if number else ''}"
    sides = {"Before": about(comparison.before), "After": about(comparison.after)}
    made = (f"{side}: {where}." for side, where in sides.items() if where)
    ends = [escaped(one_line(line)) for line in (*made, *notes(comparison))]
    inside = [grid(figure_grid(comparison)), "\n".join(items), "\n".join(ends)]
    return [f"<details><summary>{said}</summary>", *filter(None, inside), "</details>"]
