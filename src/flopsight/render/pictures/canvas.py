"""What every picture shares: its size, letters, and colours that grey print and colour blindness leave apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from ...errors import InputError
from ...files.printable import printable
from ..palette import GREY, HUES
from . import MISSING

try:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import to_rgb
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator
except ImportError:
    raise InputError(MISSING) from None

__all__ = ["LogLocator", "NullFormatter", "NullLocator"]  # handed on: matplotlib is imported here alone
SMALL, USUAL = 6.5, 8.0
"""Sizes of letters in points."""
COLUMN = 3.5
"""Inches up to which a picture is a paper's column: what stands beside it elsewhere stands below it there."""
OUTPUT = {"pdf.fonttype": 42, "font.size": USUAL, "axes.linewidth": 0.6, "figure.constrained_layout.h_pad": 0.05,
          "figure.constrained_layout.w_pad": 0.05}  # fmt: skip
"""Letters in a PDF are embedded as letters, so that they can be searched; in an SVG they are outlines."""


class Picture(Figure):  # type: ignore[misc]  # matplotlib need not be here
    """A matplotlib figure that shows itself in any notebook."""

    def encoded(self, kind: str) -> bytes:
        """The picture as a file of that kind, svg, png or pdf, exactly as wide as it was asked for."""
        drawn = BytesIO()
        with mpl.rc_context(OUTPUT):
            self.savefig(drawn, format=kind, dpi=200)
        return drawn.getvalue()

    def _repr_png_(self) -> bytes:
        return self.encoded("png")

    def text_width(self, text: str) -> float:
        """Inches of a text in small letters on one line."""
        measure = self.canvas.get_renderer()
        width, _, _ = measure.get_text_width_height_descent(text, FontProperties(size=SMALL), ismath=False)
        return float(width / self.dpi)

    def settle(self, axes: Any) -> float:
        """Lay everything out that is there so far, and answer how many inches wide the axes are."""
        with mpl.rc_context(OUTPUT):
            self.draw_without_rendering()
        return float(axes.get_window_extent().width / self.dpi)

    def fitted(self, texts: Sequence[str], inches: float) -> str:
        """The first of the texts that the room holds; else as much of the last as fits, with an ellipsis, or nothing."""
        for text in texts:
            if self.text_width(text) <= inches:
                return plain(text)
        text = texts[-1]
        most = next((end for end in range(len(text) - 1, 2, -1) if self.text_width(f"{text[:end]}…") <= inches), 0)
        return plain(f"{text[:most]}…") if most else ""


def canvas(width: float, height: float) -> tuple[Picture, Any]:
    """A picture of that size in inches, and its axes."""
    if not width > 0:
        raise InputError(f"A picture cannot be {width} inches wide; a paper's column has about 3.4.")
    with mpl.rc_context(OUTPUT):
        picture = Picture(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(picture)  # measures letters; a file of another kind brings its own
        return picture, picture.subplots()


def plain(text: str) -> str:
    """A name as it prints: matplotlib takes what is between two dollar signs for a formula."""
    return printable(text).replace("$", r"\$")


def tick(text: str) -> str:
    """The text of a tick, without zeros that say nothing: `7 GB`."""
    return re.sub(r"(\.\d*?)0+(?=\D|$)", r"\1", text).replace(". ", " ").rstrip(".")


def colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each of the first names, grey for the others."""
    return {name: HUES[place] if place < len(HUES) else GREY for place, name in enumerate(names)}


def ink(colour: str) -> str:
    """Black or white, whichever is read better on a colour."""
    red, green, blue = to_rgb(colour)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.42 else "white"


def legend(picture: Picture, entries: dict[str, str], heading: str = "") -> None:
    """Names and their colours, in rows under the picture."""
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, edgecolor="white", label=plain(name)) for name, colour in entries.items()]
    if not handles:
        return
    widest = max(picture.text_width(name) for name in entries) + 0.4
    picture.legend(
        handles=handles, loc="outside lower center", ncols=max(1, min(len(handles), int(picture.get_figwidth() / widest))),
        fontsize=SMALL, frameon=False, handlelength=1.0, columnspacing=1.2, title=heading or None, title_fontsize=SMALL,
    )  # fmt: skip
