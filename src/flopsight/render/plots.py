"""Pictures for papers: the icicle of a profile as SVG or PNG, drawn with matplotlib where it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..node import Node
from ..tree import Profile

LEAST = 0.004
"""Share of the width below which a module is not drawn."""
READ: dict[str, Callable[[Node], float]] = {
    "time": lambda node: node.latency or 0.0,
    "flops": lambda node: node.total.total.flops,
    "params": lambda node: node.params,
    "saved": lambda node: node.activation_bytes,
}
"""What the width of a bar can stand for."""


def icicle(profile: Profile, path: str | Path, by: str | None = None) -> Path:
    """Write the icicle; `by` is time, flops, params or saved, as a rule time where the profile was timed."""
    chosen = by or ("time" if profile.root.latency else "flops")
    if chosen not in READ:
        raise InputError(f"An icicle cannot be drawn by {chosen!r}; it can be drawn by {', '.join(READ)}.")
    bars = list(_bars(profile.root, chosen))
    figure, axes = _figure(0.35 * (1 + max(level for *_, level in bars)))
    kinds = sorted({node.kind for node, *_ in bars})
    for node, left, width, level in bars:
        shade = kinds.index(node.kind) / max(1, len(kinds))
        axes.barh(-level, width, left=left, height=0.92, color=_colour(shade), edgecolor="white", linewidth=0.5)
        if width > 0.05:
            name = f"{node.name}: {node.kind}" if node.name else node.kind
            axes.text(left + width / 2, -level, name[: int(width * 110)], ha="center", va="center", fontsize=7)
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_title(f"{profile.root.kind}, width by {chosen}", fontsize=9)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, bbox_inches="tight", dpi=200)
    return target


def _bars(root: Node, by: str) -> Iterator[tuple[Node, float, float, int]]:
    """Every module wide enough to be seen: where it begins, how wide it is, how deep it lies."""
    size = READ[by]
    stack = [(root, 0.0, 1.0, 0)]
    while stack:
        node, left, width, level = stack.pop()
        yield node, left, width, level
        whole = max(size(node), sum(map(size, node.children)))
        for child in node.children if whole else ():
            part = width * size(child) / whole
            if part >= LEAST:
                stack.append((child, left, part, level + 1))
            left += part


def _figure(height: float) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Pictures need matplotlib: pip install 'flopsight[plots]'.") from None
    figure = Figure(figsize=(10, height + 0.4))
    return figure, figure.subplots()


def _colour(shade: float) -> Any:
    from matplotlib.colors import hsv_to_rgb

    return hsv_to_rgb((shade, 0.28, 0.93))
