"""The roofline: modules by intensity and rate, under one roof for each unit that ran; stacks of equal blocks are one point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import units
from ...analysis.folding import fold, times
from ...analysis.limits.roofline import ceilings_for
from ...analysis.report.page_limits import roofline_points
from ...errors import InputError
from ...results.node import Node
from ...results.profile import Profile
from ..palette import GREY, HUES
from .canvas import SMALL, USUAL, Picture, canvas, colours, legend, plain

MOST_NAMES = 8
"""Points that are named, the longest first."""


@dataclass(frozen=True)
class Point:
    """A module in the picture."""

    name: str
    kind: str
    low: float
    """FLOPs per byte with nothing fused."""
    high: float
    """The same with everything fused."""
    rate: float
    weight: float
    """Its time; without one, its share of the work."""


def drawn(profile: Profile, on: str | None, width: float) -> Picture:
    """The roofline; a module without a time of its own is at the roof."""
    ceilings = ceilings_for(profile, on)
    nodes = list(fold(profile.root).walk())
    data = roofline_points(profile, nodes, ceilings, timed=on is None) if ceilings is not None else None
    if data is None:
        raise InputError(
            f"There is no roofline of {profile.root.kind}: no ceilings of its device are known, or nothing in it "
            f"multiplies matrices. Name a device: on='h100-sxm', --on h100-sxm."
        )
    points = _points(nodes, data)
    picture, axes = canvas(width, max(2.6, 0.55 * width))
    shades = colours(list(dict.fromkeys(point.kind for point in points))[: len(HUES)])
    heaviest = max(point.weight for point in points) or 1.0
    for point in points:
        shade = shades.get(point.kind, GREY)
        axes.plot((point.low, point.high), (point.rate, point.rate), color=shade, linewidth=0.8, zorder=2)
        axes.scatter(
            point.low, point.rate, s=10 + 130 * point.weight / heaviest, color=shade, edgecolor="black",
            linewidth=0.4, zorder=3,
        )  # fmt: skip
    timed = any(point["seconds"] for point in data["points"])
    axes.set(xscale="log", yscale="log", xlabel="FLOPs per byte")
    axes.set_ylabel("FLOP/s" if timed else "FLOP/s at the limit")
    texts = _draw_roofs(axes, data, points)
    _name_points(axes, points, picture, texts)
    axes.tick_params(labelsize=SMALL)
    axes.grid(color="0.93", zorder=0)
    what = "" if timed else "limits of "
    axes.set_title(plain(f"{what}{profile.root.kind} on {data['device']}"), fontsize=USUAL)
    legend(axes, shades, below=-0.16)
    return picture


def _points(nodes: Sequence[Node], data: dict[str, Any]) -> list[Point]:
    """The heaviest first, so that small ones are drawn over them."""
    best = max(peak["flops"] for peak in data["peaks"])
    found = []
    for point in data["points"]:
        node = nodes[point["module"]]
        at_roof = min(point["peak"] or best, point["low"] * data["bandwidth"])
        many = f" x {times(node)}" if times(node) > 1 else ""
        rate = point["rate"] or at_roof
        weight = point["seconds"] or (node.own.forward.flops / rate if rate else 0.0)
        found.append(Point(f"{node.name or node.kind}{many}", node.kind, point["low"], point["high"], rate, weight))
    return sorted(found, key=lambda point: -point.weight)


def _draw_roofs(axes: Any, data: dict[str, Any], points: Sequence[Point]) -> list[Any]:
    """Draw the roofs; the texts that stand at them."""
    bandwidth, peaks = data["bandwidth"], data["peaks"]
    best = max(peak["flops"] for peak in peaks)
    ridges = [peak["flops"] / bandwidth for peak in peaks]
    least = min(*(point.low for point in points), *ridges) / 3
    most = max(*(point.high for point in points), *ridges) * 3
    texts = [((least, least * bandwidth), f"memory {units.si(bandwidth, 'B/s')}", (16, 2), "left")]
    for peak, ridge in zip(peaks, ridges, strict=True):
        axes.plot((least, ridge, most), (least * bandwidth, peak["flops"], peak["flops"]), color="black", linewidth=0.9)
        text = f"{peak['name']} {units.rate(peak['flops'])}, ridge at {units.si(ridge)}"
        texts.append(((ridge, peak["flops"]), text, (-4, 3), "right"))
    axes.set_xlim(least, most)
    axes.set_ylim(top=best * 4)
    return [
        axes.annotate(plain(text), at, offset, textcoords="offset points", ha=side, fontsize=SMALL, color="0.25")
        for at, text, offset, side in texts
    ]


def _name_points(axes: Any, points: Sequence[Point], picture: Picture, texts: Sequence[Any]) -> None:
    """Name the heaviest points, each where no other name stands yet; a name without room is left out."""
    measure = picture.canvas.get_renderer()
    taken = [text.get_window_extent(measure) for text in texts]
    for point in points[:MOST_NAMES]:
        for offset, side in (((5, 4), "left"), ((5, -9), "left"), ((-5, 4), "right"), ((-5, -9), "right")):
            label = axes.annotate(
                plain(point.name), (point.low, point.rate), offset, textcoords="offset points", ha=side, fontsize=SMALL,
                zorder=4,
            )  # fmt: skip
            box = label.get_window_extent(measure)
            if not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            label.remove()
