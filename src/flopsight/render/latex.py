r"""A profile as a LaTeX table of its modules, or several profiles side by side, for papers; needs no package."""

from __future__ import annotations

from ..analysis.folding import shortened
from ..analysis.tables import tree_rows
from ..results.profile import Profile
from .columns import figures
from .page import Grid
from .tree import tree_grid

SIGNS = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip


def render(profile: Profile, *, depth: int | None = None, max_rows: int | None = 40, full: bool = False) -> str:
    """The module tree as a tabular."""
    rows = tree_rows(shortened(profile.root, depth, max_rows, full=full))
    return grid(tree_grid(rows, figures(rows, trained=profile.trained)))


def grid(table: Grid) -> str:
    """A LaTeX tabular; nothing in a cell is a command."""
    indent = r"\hspace{%dem}" if table.depths else ""
    head = [escaped(column.title.strip()) for column in table.columns]
    rows = (
        [(indent % depth if indent else "") + escaped(name), *map(escaped, rest)]
        for depth, (name, *rest) in table.rows()
    )
    first, *lines = (" & ".join(cells) + r" \\" for cells in (head, *rows))
    shape = "".join("r" if column.right else "l" for column in table.columns)
    return "\n".join(
        (rf"\begin{{tabular}}{{{shape}}}", r"\hline", first, r"\hline", *lines, r"\hline", r"\end{tabular}", "")
    )


def escaped(text: str) -> str:
    """Text in which LaTeX sees no command."""
    return "".join(SIGNS.get(sign, sign) for sign in text)
