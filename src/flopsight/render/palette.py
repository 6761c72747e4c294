"""Colours that the page and the pictures share, so that a class or a kind of memory has the same hue in both."""

from __future__ import annotations

HUES = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00")
"""Okabe's and Ito's colours, which the colour-blind tell apart; in grey print, the names beside them do."""
GREY = "#C8C8C8"
PHASES = {"forward": HUES[0], "backward": HUES[1], "recompute": HUES[3], "optimizer": HUES[2]}
"""By phase of a step."""
LINES = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8250df", "#57606a")
"""Lines of a plot, which the colour-blind tell apart on white and on black."""
LINE, LIMIT, NOTE, SCALE, TEXT = "#4f7cff", "#cf222e", "#66707f", "#e0e0e0", "#333"
"""A line that is alone, one that is not to be crossed, what is said below a plot, its scales and its words."""
PIECES = (
    "#4f7cff", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6", "#06b6d4", "#ec4899", "#84cc16", "#64748b", "#b45309",
)  # fmt: skip
"""Pieces of a bar beside each other."""
MEMORY_HUES = {
    "parameters": "#0072B2", "buffers": "#DDDDDD", "optimizer": "#56B4E9", "inputs": "#CC79A7", "kv cache": "#F0E442", "gradients": "#009E73",
    "buckets": "#DDCC77", "gathered": "#332288", "activations": "#E69F00", "recomputed": "#882255", "temporaries": "#D55E00",
}  # fmt: skip
"""By kind of memory: kinds that usually lie on each other differ in grey print too."""


def pale(colour: str) -> str:
    """A colour as an area on white that text stands on."""
    channels = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"#{''.join(f'{(one + 255) // 2:02X}' for one in channels)}"
