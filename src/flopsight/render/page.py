"""What a view consists of before it is drawn: headings, lines, and grids that drop columns if the page is narrow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..files.printable import one_line, printable

GAP = 2
INDENT = "  "
"""What a row of a tree is indented by, a level."""
NARROWEST = 16
MATTERS = 20
"""Columns with a lower `keep` go before the names of rows get shorter."""


@dataclass(frozen=True)
class Column:
    """A column of a grid."""

    title: str
    cells: tuple[str, ...]
    keep: int = 0
    """Columns with the lowest number leave first."""
    right: bool = True
    short: tuple[str, ...] | None = None
    """The same cells with less in them, for when the long ones do not fit."""
    style: str = ""
    styles: tuple[str, ...] = ()
    """The style of each cell, if they differ."""
    shares: tuple[float | None, ...] = ()
    """What each cell is a share of the whole, if a terminal can draw a bar beside it."""

    def __post_init__(self) -> None:
        """Escape what does not print: a model may call its modules anything."""
        for name, cells in (("cells", self.cells), ("short", self.short or ())):
            if not "".join(cells).isprintable():
                object.__setattr__(self, name, tuple(map(printable, cells)))

    @cached_property
    def width(self) -> int:
        """Characters of the widest cell."""
        return max(len(self.title), *map(len, self.cells), 0)


@dataclass(frozen=True)
class Grid:
    """Columns side by side; the first one names the rows and stays to the last."""

    columns: tuple[Column, ...]
    depths: tuple[int, ...] | None = None
    """How deep each row lies, if the rows are a tree."""
    clip_left: bool = False
    """Whether a name that is too long loses its beginning, as suits a path, or its end."""

    def rows(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Every row as its depth and its cells, the name without its indent."""
        for place, (name, *rest) in enumerate(zip(*(column.cells for column in self.columns), strict=True)):
            depth = self.depths[place] if self.depths else 0
            yield depth, (name.removeprefix(INDENT * depth), *rest)

    def fitted(self, width: int) -> Grid:
        """The same grid with what fits into `width`: unneeded columns go first, then names get shorter."""
        columns = list(self.columns)
        while _width(columns) > width and len(columns) > 1:
            least = min(columns[1:], key=lambda column: column.keep)
            if columns[0].short is not None and least.keep >= MATTERS:
                columns[0] = replace(columns[0], cells=columns[0].short, short=None)
            else:
                columns.remove(least)
        room = max(NARROWEST, width - _width(columns) + columns[0].width)
        cells = tuple(self._clipped(cell, room) for cell in columns[0].cells)
        return replace(self, columns=(replace(columns[0], cells=cells), *columns[1:]))

    def left_out(self, width: int) -> str:
        """What `fitted` leaves out and how to see it; nothing if all columns fit."""
        shown = {column.title for column in self.fitted(width).columns}
        missing = [column.title.strip() for column in self.columns if column.title not in shown]
        if not missing:
            return ""
        return f"No room for {', '.join(missing)}: --width {_width(self.columns)} shows every column."

    def _clipped(self, text: str, room: int) -> str:
        if len(text) <= room:
            return text
        return f"...{text[len(text) - room + 3 :]}" if self.clip_left else f"{text[: room - 3]}..."


@dataclass(frozen=True)
class Heading:
    """A line that names what follows."""

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", one_line(self.text))


@dataclass(frozen=True)
class Lines:
    """Lines of text; those that are too long are wrapped."""

    lines: tuple[str, ...]
    style: str = ""
    styles: tuple[str, ...] = ()
    """The style of each line, if they differ."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", tuple(map(one_line, self.lines)))


Page = Sequence[Heading | Lines | Grid]


def terminal_width() -> int:
    """Columns of the terminal, or 120 if there is none."""
    return shutil.get_terminal_size((120, 24)).columns


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)
