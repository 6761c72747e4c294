"""Colours that the page and the pictures share, so that a class or a kind of memory has the same hue in both."""

from __future__ import annotations

HUES = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00")
"""Okabe's and Ito's colours, which the colour-blind tell apart; neighbours differ in lightness too."""
GREY = "#C8C8C8"
KINDS = {
    "parameters": "#56B4E9", "buffers": "#999999", "optimizer": "#009E73", "inputs": "#CC79A7", "kv cache": "#882255", "gradients": "#0072B2",
    "buckets": "#DDCC77", "gathered": "#332288", "activations": "#E69F00", "recomputed": "#F0E442", "temporaries": "#D55E00",
}  # fmt: skip
"""By kind of memory: the kinds that most steps have get the colours that differ most."""
