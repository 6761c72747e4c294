"""A page as plain text: ASCII, no colour, the same on every machine."""

from __future__ import annotations

import textwrap

from .page import GAP, Grid, Heading, Page, terminal_width


def plain(page: Page, width: int | None = None) -> str:
    """The page as text, at most `width` characters wide if that can be done."""
    width = width or terminal_width()
    blocks = []
    for part in page:
        if isinstance(part, Heading):
            blocks.append("\n".join(wrapped(part.text, width)))
        elif isinstance(part, Grid):
            hint = part.left_out(width)
            blocks.append("\n".join([*grid_lines(part.fitted(width)), *(["", *wrapped(hint, width)] if hint else [])]))
        else:
            blocks.append("\n".join(line for text in part.lines for line in wrapped(text, width)))
    return "\n\n".join(block for block in blocks if block) + "\n"


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of `width`; what follows the first is indented two further than it."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    ) or [""]


def grid_lines(grid: Grid) -> list[str]:
    """The lines of a grid, however wide it is."""

    def line(cells: list[str]) -> str:
        padded = [
            cell.rjust(column.width) if column.right else cell.ljust(column.width)
            for cell, column in zip(cells, grid.columns, strict=True)
        ]
        return (" " * GAP).join(padded).rstrip()

    rows = [list(row) for row in zip(*(column.cells for column in grid.columns), strict=True)]
    rule = "-" * (sum(column.width for column in grid.columns) + GAP * (len(grid.columns) - 1))
    return [line([column.title for column in grid.columns]), rule, *map(line, rows)]
