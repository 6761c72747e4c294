"""The icicle: each module a bar below the module that it is in, as wide as its share; stacks of equal blocks are one bar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...analysis.figures import BOOK, UNITS
from ...analysis.folding import fold, times
from ...analysis.report.page_step import step_of
from ...errors import InputError
from ...results.node import Node
from ...results.profile import Profile
from ..palette import GREY, HUES
from .canvas import SMALL, USUAL, Picture, canvas, colours, ink, legend, plain

LEAST = 0.004
"""Share of the width below which a module is not drawn."""
ROW = 0.24
"""Height of a bar in inches."""
WIDTHS = {"time": "latency", "flops": "step_flops", "params": "params", "saved": "activation_bytes"}
"""What the width of a bar can stand for, and the figure that it is; the time is that of the whole step."""


@dataclass(frozen=True)
class Bar:
    """One rectangle: where it begins, how wide it is as shares of the whole, how deep it lies."""

    name: str
    kind: str
    left: float
    width: float
    level: int
    leaf: bool = False


def drawn(profile: Profile, by: str | None, width: float) -> Picture:
    """The icicle; as a rule by time if the profile was timed."""
    chosen = by or ("time" if profile.root.latency else "flops")
    if chosen not in WIDTHS:
        raise InputError(f"An icicle cannot be drawn by {chosen!r}; it can be drawn by {', '.join(WIDTHS)}.")
    figure = BOOK[WIDTHS[chosen]]
    root = fold(step_of(profile).timed if chosen == "time" else profile.root)
    read = figure.of_node or (lambda _node: 0.0)

    def size(node: Node) -> float:
        return read(node) or 0.0

    bars = list(bars_of(root, size))
    depth = 1 + max(bar.level for bar in bars)
    picture, axes = canvas(width, ROW * depth + 0.75)
    shades = _shades(bars)
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0.5 - depth, 0.5))
    what = "time" if chosen == "time" else figure.label
    axes.set_title(
        plain(f"{profile.root.kind}: {UNITS[figure.unit].text(size(root))}, width by {what}"), fontsize=USUAL
    )
    legend(picture, {kind: colour for kind, colour in shades.items() if colour != GREY})
    _draw_bars(picture, axes, bars, shades)
    return picture


def _draw_bars(picture: Picture, axes: Any, bars: Sequence[Bar], shades: dict[str, str]) -> None:
    inches = picture.settle(axes)
    for bar in bars:
        colour = shades.get(bar.kind, GREY) if bar.leaf else "#EDEDED"
        axes.barh(-bar.level, bar.width, left=bar.left, height=0.94, color=colour, edgecolor="white", linewidth=0.6)
        names = (f"{bar.name} {bar.width:.0%}", bar.name) if bar.level else (bar.name,)
        text = picture.fitted(names, bar.width * inches - 0.03)
        axes.text(
            bar.left + bar.width / 2, -bar.level, text, ha="center", va="center", fontsize=SMALL, color=ink(colour),
            clip_on=True,
        )  # fmt: skip


def bars_of(root: Node, size: Callable[[Node], float]) -> Iterator[Bar]:
    """Every module wide enough to be seen."""
    stack = [(root, 0.0, 1.0, 0, 1)]
    while stack:
        node, left, width, level, around = stack.pop()
        shown: list[tuple[Node, float, float, int, int]] = []
        total = max(size(node), sum(map(size, node.children)))
        at = left
        for child in node.children if total else ():
            part = width * size(child) / total
            if part >= LEAST:
                shown.append((child, at, part, level + 1, times(node)))
            at += part
        many = f"{node.kind} x {times(node)}"
        name = many if times(node) > around else f"{node.kind} {node.name}" if node.name.isdigit() else node.name
        beside = node.name.strip("<>") if node.name.startswith("<") else ""  # a part of the step outside all modules
        yield Bar(beside or name or node.kind, beside or node.kind, left, width, level, leaf=not shown)
        stack += reversed(shown)


def _shades(bars: list[Bar]) -> dict[str, str]:
    """A colour for the kinds of module that take most, by the bars that nothing lies below."""
    widths: Counter[str] = Counter()
    for bar in bars:
        if bar.leaf:
            widths[bar.kind] += bar.width  # type: ignore[assignment]
    return colours([kind for kind, _ in widths.most_common(len(HUES))])
