r"""A profile as a LaTeX table of its modules, or several profiles side by side, for papers: booktabs, units in the head."""

from __future__ import annotations

import re
from dataclasses import replace

from ..analysis.folding import shortened
from ..analysis.tables import tree_rows
from ..results.profile import Profile
from .columns import chosen, figures
from .page import Column, Grid
from .tree import tree_grid

SIGNS = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip

PACKAGE = r"% \usepackage{booktabs}"
LEAST = 0.01
"""A number below this is written as being below it."""
NUMBER = re.compile(r"(<?)(-?[\d,]+(?:\.\d+)?) ?([kMGTPE]?|[mun](?=s$))(B|s|%|FLOP/s|)")
"""A cell that is a number: digits, prefix, unit."""
PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}


def render(
    profile: Profile,
    *,
    depth: int | None = None,
    max_rows: int | None = 40,
    full: bool = False,
    columns: str | None = None,
) -> str:
    """The module tree as a tabular; `columns` chooses figures by their names: `params,flops,latency`."""
    rows = tree_rows(shortened(profile.root, depth, max_rows, full=full))
    return grid(tree_grid(rows, chosen(figures(rows, trained=profile.trained), columns)))


def grid(table: Grid) -> str:
    """A LaTeX tabular; nothing in a cell is a command."""
    table = replace(table, columns=(table.columns[0], *map(_with_unit, table.columns[1:])))
    indent = r"\hspace{%dem}" if table.depths else ""
    head = [escaped(column.title.strip()) for column in table.columns]
    rows = (
        [(indent % depth if indent else "") + escaped(name), *map(escaped, rest)]
        for depth, (name, *rest) in table.rows()
    )
    first, *lines = (" & ".join(cells) + r" \\" for cells in (head, *rows))
    shape = "".join("r" if column.right else "l" for column in table.columns)
    above = (PACKAGE, rf"\begin{{tabular}}{{{shape}}}", r"\toprule", first, r"\midrule")
    return "\n".join((*above, *lines, r"\bottomrule", r"\end{tabular}", ""))


def _with_unit(column: Column) -> Column:
    """The column with one unit for all its numbers, that of the largest, in its head."""
    found = [NUMBER.fullmatch(cell) for cell in column.cells]
    numbers = [float(one[2].replace(",", "")) * PREFIXES[one[3]] if one else 0.0 for one in found]
    if not any(one and (one[3] or one[4]) for one in found):
        return column
    largest = found[max(range(len(found)), key=lambda place: abs(numbers[place]) if found[place] else -1.0)]
    assert largest is not None
    if largest[4] == "%":
        bare = tuple(cell.removesuffix("%") for cell in column.cells)
        return replace(column, title="%" if column.title.strip() == "%" else f"{column.title} (%)", cells=bare)
    scale, unit = PREFIXES[largest[3]], f"{largest[3].replace('u', 'µ')}{largest[4]}"
    cells = (
        _written(number / scale, exact=not one[1]) if one else cell
        for one, number, cell in zip(found, numbers, column.cells, strict=True)
    )
    return replace(column, title=f"{column.title} ({unit})", cells=tuple(cells))


def _written(value: float, *, exact: bool) -> str:
    size = abs(value)
    if not exact or 0 < size < LEAST:
        return f"<{max(value, LEAST):g}"
    return f"{value:.0f}" if size >= 100 or not size else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def escaped(text: str) -> str:
    """Text in which LaTeX sees no command."""
    return "".join(SIGNS.get(sign, sign) for sign in text)
