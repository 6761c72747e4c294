"""Colours that the page and the pictures share, so that a class or a kind of memory has the same hue in both."""

from __future__ import annotations

from ..results.memory_curve import LASTING_FIRST

HUES = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00")
"""Okabe's and Ito's colours, which the colour-blind tell apart; neighbours differ in lightness too."""
GREY = "#C8C8C8"
KINDS = dict(zip(LASTING_FIRST, (*HUES, "#999999", "#332288", "#DDCC77", "#882255"), strict=True))
"""By kind of memory."""
