"""A page on a terminal: the same grids and lines as the plain text, in colour and with guides along the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..results.profile import Profile
from .formats import Format
from .page import Column, Grid, Heading, Page
from .plain import plain, wrapped

MOST_RICH_ROWS = 500
"""Above this many rows a rich table takes seconds, and plain text none."""

BAR = 8
"""Characters of a bar that stands for the whole."""
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
BAR_STYLES = {"% ": "magenta"}
"""A bar has the colour of the figure that it is a share of: FLOPs cyan, times magenta."""


def show(profile: Profile, format: Format, console: Console, options: Mapping[str, Any]) -> None:
    """Draw the profile on the console; formats that are not pages are text for other programs and stay as they are."""
    if not format.page:
        console.out(format.text(profile, options), highlight=False, end="")
        return
    given = dict(options)
    width = given.pop("width", console.width)
    page: Page = format.draw(profile, **given)
    if any(isinstance(part, Grid) and len(part.columns[0].cells) > MOST_RICH_ROWS for part in page):
        console.out(plain(page, width), highlight=False, end="")
        return
    draw(page, console, width)


def draw(page: Page, console: Console, width: int) -> None:
    """Print a page in colour."""
    for part in page:
        if isinstance(part, Heading):
            console.print(Text("\n".join(wrapped(part.text, width)), style="bold underline"), soft_wrap=True)
        elif isinstance(part, Grid):
            utf = console.encoding.startswith("utf")
            grid = _with_bars(part) if utf and console.color_system else part
            console.print(_table(grid.fitted(width), guided=utf))
            hint = part.left_out(width)
            if hint:
                console.print(Text("\n" + "\n".join(wrapped(hint, width)), style="dim"), soft_wrap=True)
        elif part.lines:
            styles = part.styles or (part.style,) * len(part.lines)
            said = (
                Text("\n".join(wrapped(line, width)), style) for line, style in zip(part.lines, styles, strict=True)
            )
            console.print(Text("\n").join(said), soft_wrap=True)
        else:
            continue
        console.print()


def _with_bars(grid: Grid) -> Grid:
    """The grid with a column of bars after each column of shares; on a narrow terminal bars leave first."""
    columns = []
    for column in grid.columns:
        columns.append(column)
        if column.shares:
            bars = tuple("" if share is None else bar(share) for share in column.shares)
            columns.append(Column("", bars, keep=-1, right=False, style=BAR_STYLES.get(column.title, "cyan")))
    return replace(grid, columns=tuple(columns))


def bar(share: float) -> str:
    """A share as a bar, to an eighth of a character; a share that is not zero is seen."""
    eighths = min(8 * BAR, max(round(share * 8 * BAR), 1 if share > 0 else 0))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8]


def _table(grid: Grid, *, guided: bool) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    for column in grid.columns:
        table.add_column(
            column.title.strip(), style=column.style, justify="right" if column.right else "left", no_wrap=True
        )
    guides = _guides(grid.depths) if guided and grid.depths else None
    for place, row in enumerate(zip(*(column.cells for column in grid.columns), strict=True)):
        first, *rest = row
        name = Text.assemble((guides[place], "not bold dim"), first.lstrip(" ")) if guides else Text(first)
        styles = [column.styles[place] if column.styles else "" for column in grid.columns[1:]]
        table.add_row(name, *(Text(cell, style) for cell, style in zip(rest, styles, strict=True)))
    return table


def _guides(depths: Sequence[int]) -> list[str]:
    """For each row, lines that join it to its siblings and its parent, two characters a level as in the plain text."""
    guides = []
    for place, depth in enumerate(depths):
        open_levels = [_continues(depths, place, level) for level in range(1, depth + 1)]
        joints = ["│ " if more else "  " for more in open_levels[:-1]]
        joints += ["├ " if open_levels[-1] else "└ "] if open_levels else []
        guides.append("".join(joints))
    return guides


def _continues(depths: Sequence[int], place: int, level: int) -> bool:
    """Whether a later row has the same ancestor above `level` and stands at that level itself."""
    for depth in depths[place + 1 :]:
        if depth <= level:
            return depth == level
    return False
