r"""A profile as a LaTeX table of its modules, or several profiles side by side, for papers; needs no package."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.folding import shortened
from ..analysis.tables import tree_rows
from ..results.profile import Profile
from .columns import figures
from .page import Column
from .tree import label

SIGNS = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip


def render(profile: Profile, *, depth: int | None = None, max_rows: int | None = 40, full: bool = False) -> str:
    """The module tree as a tabular."""
    rows = tree_rows(shortened(profile.root, depth, max_rows, full=full))
    names = Column("module", tuple(rf"\hspace{{{row.depth}em}}" + escaped(label(row)) for row in rows), right=False)
    rest = [
        Column(escaped(column.title.strip()), tuple(map(escaped, column.cells)), right=column.right)
        for column in figures(rows, trained=profile.trained)
    ]
    return tabular([names, *rest])


def tabular(columns: Sequence[Column]) -> str:
    """Columns, escaped already, as a LaTeX tabular."""
    lines = [
        " & ".join(cells) + r" \\"
        for cells in ([column.title for column in columns], *zip(*(column.cells for column in columns), strict=True))
    ]
    shape = "".join("r" if column.right else "l" for column in columns)
    return "\n".join(
        (rf"\begin{{tabular}}{{{shape}}}", r"\hline", lines[0], r"\hline", *lines[1:], r"\hline", r"\end{tabular}", "")
    )


def escaped(text: str) -> str:
    """Text in which LaTeX sees no command."""
    return "".join(SIGNS.get(sign, sign) for sign in text if sign.isprintable())
