"""What every picture shares: its size, letters, and colours that grey print and colour blindness leave apart."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from ...errors import InputError
from ...files.printable import printable
from ..palette import GREY, HUES

try:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
except ImportError:
    raise InputError("Pictures need matplotlib: pip install 'flopsight[plots]'.") from None

SMALL, USUAL = 6.5, 8.0
"""Sizes of letters in points."""
LETTER = 0.62
"""Width of a letter over its height, in the mean."""
OUTPUT = {"pdf.fonttype": 42, "font.size": USUAL, "axes.linewidth": 0.6}
"""Letters in a PDF are embedded as letters, so that they can be searched; in an SVG they are outlines."""


class Picture(Figure):  # type: ignore[misc]  # matplotlib need not be here
    """A matplotlib figure that shows itself in any notebook."""

    def encoded(self, kind: str) -> bytes:
        """The picture as a file of that kind: svg, png or pdf."""
        drawn = BytesIO()
        with mpl.rc_context(OUTPUT):
            self.savefig(drawn, format=kind, bbox_inches="tight", dpi=200)
        return drawn.getvalue()

    def _repr_png_(self) -> bytes:
        return self.encoded("png")


def canvas(width: float, height: float) -> tuple[Picture, Any]:
    """A picture of that size in inches, and its axes."""
    if not width > 0:
        raise InputError(f"A picture cannot be {width} inches wide; a paper's column has about 3.4.")
    with mpl.rc_context(OUTPUT):
        picture = Picture(figsize=(width, height))
        FigureCanvasAgg(picture)  # measures letters; a file of another kind brings its own
        return picture, picture.subplots()


def plain(text: str) -> str:
    """A name as it prints: matplotlib takes what is between two dollar signs for a formula."""
    return printable(text).replace("$", r"\$")


def fitted(text: str, inches: float, size: float = SMALL) -> str:
    """As much of a text as that width holds, with an ellipsis if some is missing; nothing if next to none fits."""
    most = int(inches * 72 / (size * LETTER))
    if len(text) <= most:
        return plain(text)
    return plain(f"{text[: most - 1]}…") if most >= 4 else ""


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each of the first names, grey for the others."""
    return {name: HUES[place] if place < len(HUES) else GREY for place, name in enumerate(names)}


def legend(axes: Any, entries: dict[str, str], below: float) -> None:
    """Names and their colours, in a row under the picture."""
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, edgecolor="white", label=plain(name)) for name, colour in entries.items()]
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, below), ncols=min(4, len(handles)), fontsize=SMALL,
        frameon=False, handlelength=1.0, columnspacing=1.2,
    )  # fmt: skip
