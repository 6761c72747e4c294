"""The roofline: modules by intensity and rate, under one roof for each unit that ran; stacks of equal blocks are one point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import atan2, cos, degrees, hypot, pi, sin, sqrt
from typing import Any

from ... import units
from ...analysis.folding import fold, times
from ...analysis.limits.roofline import ceilings_for
from ...analysis.report.page_limits import roofline_points
from ...errors import InputError
from ...results.node import Node
from ...results.profile import Profile
from ..palette import GREY, HUES
from .canvas import SMALL, USUAL, Picture, canvas, colours, legend, plain, tick

MOST_NAMES = 12
"""Points that are named, the longest first."""
AROUND = tuple(
    (distance * cos(turn * pi / 4), distance * sin(turn * pi / 4))
    for distance in (1.0, 2.4, 4.5)
    for turn in (1, 7, 3, 5, 0, 4, 2, 6)
)
"""Places for a name around its point, the best first."""
STEP = 6.0
"""Points of the page from a dot's edge to the nearest place."""


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
    """Its time; without one, its least time."""


@dataclass(frozen=True)
class Taken:
    """The places where something stands."""

    marks: list[Any]
    """Dots and lines, which no text may cover."""
    texts: list[Any]
    """Texts, which also no line to a name may cross."""


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
    timed = any(point["seconds"] for point in data["points"])
    picture, axes = canvas(width, max(2.8, 0.55 * width))
    kinds = Counter[str]()
    for point in points:
        kinds[point.kind] += point.weight  # type: ignore[assignment]
    shades = colours([kind for kind, _ in kinds.most_common(len(HUES))])
    axes.set(xscale="log", yscale="log", xlabel="FLOPs per byte")
    axes.set_ylabel("FLOP/s" if timed else "FLOP/s at the limit")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _place: tick(units.si(value)))
    axes.tick_params(labelsize=SMALL)
    axes.tick_params(which="minor", labelleft=False, labelbottom=False)
    axes.grid(color="0.93")
    axes.set_axisbelow(True)
    what = "" if timed else "limits of "
    axes.set_title(plain(f"{what}{profile.root.kind} on {data['device']}"), fontsize=USUAL)
    legend(picture, shades, "a dot is a module, its area the module's " + ("time" if timed else "least time"))
    sizes = _draw_points(axes, points, shades)
    _frame(axes, data, points)
    picture.settle(axes)
    taken = Taken(_dots(axes, points, sizes), [])
    _draw_roofs(axes, data, taken)
    _name_points(axes, points[:MOST_NAMES], sizes, taken)
    return picture


def _draw_points(axes: Any, points: Sequence[Point], shades: dict[str, str]) -> list[float]:
    """Draw the dots; their radii, in points of the page."""
    heaviest = max(point.weight for point in points) or 1.0
    sizes = [10 + 130 * point.weight / heaviest for point in points]
    for point, size in zip(points, sizes, strict=True):
        shade = shades.get(point.kind, GREY)
        axes.plot((point.low, point.high), (point.rate, point.rate), color=shade, linewidth=0.8, zorder=2)
        axes.scatter(point.low, point.rate, s=size, color=shade, edgecolor="black", linewidth=0.4, zorder=3)
    return [sqrt(size / pi) for size in sizes]


def _dots(axes: Any, points: Sequence[Point], sizes: Sequence[float]) -> list[Any]:
    """The places of the dots and of their lines to what fusion reaches."""
    from matplotlib.transforms import Bbox

    places = axes.transData.transform([(point.low, point.rate) for point in points])
    ends = axes.transData.transform([(point.high, point.rate) for point in points])
    edges = [size * axes.figure.dpi / 72 for size in sizes]
    dots = [
        Bbox.from_bounds(x - edge, y - edge, 2 * edge, 2 * edge) for (x, y), edge in zip(places, edges, strict=True)
    ]
    return dots + [Bbox([(x, y - 1), (end, y + 1)]) for (x, y), (end, _) in zip(places, ends, strict=True)]


def _points(nodes: Sequence[Node], data: dict[str, Any]) -> list[Point]:
    """The heaviest first, so that small ones are drawn over them."""
    best = max(peak["flops"] for peak in data["peaks"])
    shown = [nodes[point["module"]] for point in data["points"]]
    found = []
    for point, node, name in zip(data["points"], shown, _names(shown), strict=True):
        at_roof = min(point["peak"] or best, point["low"] * data["bandwidth"])
        rate = point["rate"] or at_roof
        weight = point["seconds"] or point["limit"] or 0.0
        found.append(Point(name, node.kind, point["low"], point["high"], rate, weight))
    return sorted(found, key=lambda point: -point.weight)


def _names(nodes: Sequence[Node]) -> list[str]:
    """Each module's name and how many it stands for, with what it is in or its whole path if another has the same name."""
    words = [[part for part in node.path.split(".") if not part[:1].isdigit()] for node in nodes]
    choices = [[".".join(name[-parts:]) for name in words] for parts in (1, 2)]
    often = [Counter(names) for names in choices]
    found = []
    for place, node in enumerate(nodes):
        alone = (names[place] for names, count in zip(choices, often, strict=True) if count[names[place]] == 1)
        name = next(filter(None, alone), node.path) or node.kind
        found.append(name + (f" x {times(node)}" if times(node) > 1 else ""))
    return found


def _frame(axes: Any, data: dict[str, Any], points: Sequence[Point]) -> None:
    """Limits within which every point, every ridge and some of the slope is seen."""
    ridges = [peak["flops"] / data["bandwidth"] for peak in data["peaks"]]
    best = max(peak["flops"] for peak in data["peaks"])
    ridges += [best / data["cacheBandwidth"]] if data["cacheBandwidth"] else []
    least = min(*(point.low for point in points), *ridges) / 3
    axes.set_xlim(least, max(*(point.high for point in points), *ridges) * 3)
    lowest = min(*(point.rate for point in points), least * data["bandwidth"])
    axes.set_ylim(lowest / 2, max(best, *(point.rate for point in points)) * 3)


def _draw_roofs(axes: Any, data: dict[str, Any], taken: Taken) -> None:
    """Draw the roofs and write what each is, where nothing else stands."""
    bandwidth, (least, most) = data["bandwidth"], axes.get_xlim()
    top = max(peak["flops"] for peak in data["peaks"]) / bandwidth
    ends = axes.transData.transform([(least, least * bandwidth), (top, top * bandwidth)])
    turned = degrees(atan2(ends[1][1] - ends[0][1], ends[1][0] - ends[0][0]))
    middle = sqrt(least * top)
    slope = {"rotation": turned, "rotation_mode": "anchor", "color": "0.25", "ha": "center"}
    for peak in data["peaks"]:
        height, ridge = peak["flops"], peak["flops"] / bandwidth
        axes.plot((least, ridge, most), (least * bandwidth, height, height), color="black", linewidth=0.9, zorder=1)
        taken.marks.extend(_pieces(axes, (ridge, height), (most, height)))
        text = f"{peak['name']} {units.rate(height)}, ridge at {units.si(ridge)}"
        places = ((most, -3, 5), (ridge, -3, 5), (ridge, 3, 5), (most, -3, -6), (ridge, 8, -6), (most, -3, 12))
        spots = [
            ((at, height), (right, up), {"ha": "right" if right < 0 else "left", "color": "0.25"})
            for at, right, up in places
        ]
        _write(axes, text, spots, taken, must=True)
    cached = data["cacheBandwidth"]
    if cached:
        knee = top * bandwidth / cached
        axes.plot(
            (least, knee), (least * cached, top * bandwidth), color="black", linewidth=0.9, linestyle="--", zorder=1
        )
        spot = ((sqrt(least * knee), sqrt(least * knee) * cached), (-3, 5), slope)
        _write(axes, f"cache {units.si(cached, 'B/s')}", [spot], taken, must=True)
        taken.marks.extend(_pieces(axes, (least, least * cached), (knee, top * bandwidth)))
    _write(
        axes, f"memory {units.si(bandwidth, 'B/s')}", [((middle, middle * bandwidth), (-3, 5), slope)], taken, must=True
    )
    taken.marks.extend(_pieces(axes, (least, least * bandwidth), (top, top * bandwidth)))


def _pieces(axes: Any, first: tuple[float, float], last: tuple[float, float], number: int = 60) -> list[Any]:
    """A line of the picture as small boxes."""
    from matplotlib.transforms import Bbox

    (left, low), (right, high) = axes.transData.transform([first, last])
    steps = [place / number for place in range(number + 1)]
    spots = [(left + (right - left) * step, low + (high - low) * step) for step in steps]
    return [Bbox.from_bounds(x - 1, y - 1, 2, 2) for x, y in spots]


def _name_points(axes: Any, points: Sequence[Point], sizes: Sequence[float], taken: Taken) -> None:
    """Name points, each where nothing else stands; a name without room is left out."""
    for point, edge in zip(points, sizes, strict=False):
        line = {"arrowstyle": "-", "linewidth": 0.4, "color": "0.5", "shrinkA": 0, "shrinkB": edge}
        spots = []
        for right, up in AROUND:
            side = "left" if right > 0.1 else "right" if right < -0.1 else "center"
            how = {"ha": side, "arrowprops": line if hypot(right, up) > 1.5 else None}
            spots.append(((point.low, point.rate), (right * (edge + STEP), up * (edge + STEP)), how))
        _write(axes, point.name, spots, taken)


def _write(
    axes: Any, text: str, spots: Sequence[tuple[Any, Any, dict[str, Any]]], taken: Taken, *, must: bool = False
) -> None:
    """Write a text at the first spot where it and its line to the dot cover nothing; at the first of all if it `must` be there."""
    from matplotlib.text import Text

    measure, inside = axes.figure.canvas.get_renderer(), axes.get_window_extent()
    for attempt, (at, offset, how) in enumerate([*spots, *(spots[:1] if must else ())]):
        label = axes.annotate(
            plain(text), at, offset, textcoords="offset points", va="center", fontsize=SMALL, zorder=4, **how
        )
        label.update_positions(measure)
        box = Text.get_window_extent(label, measure)  # the letters without the line to the dot
        fits = all(inside.contains(x, y) for x, y in ((box.x0, box.y0), (box.x1, box.y1)))
        fits = fits and not any(box.overlaps(other) for other in (*taken.marks, *taken.texts))
        line = _line_to(axes, at, box) if how.get("arrowprops") else []
        crosses = any(piece.overlaps(other) for piece in line for other in taken.texts)
        if attempt == len(spots) or (fits and not crosses):
            taken.texts.append(box)
            taken.marks.extend(line)
            return
        label.remove()


def _line_to(axes: Any, at: tuple[float, float], box: Any) -> list[Any]:
    """The line from a dot to its name as small boxes."""
    x, y = axes.transData.transform(at)
    near = min(max(x, box.x0), box.x1), min(max(y, box.y0), box.y1)
    return _pieces(axes, at, axes.transData.inverted().transform(near), 20)
