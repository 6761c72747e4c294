"""Pictures for papers as SVG, PNG or PDF, drawn with matplotlib where it is installed: icicle, roofline, memory."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any

from .. import units
from ..analysis.figures import BOOK
from ..analysis.limits.roofline import ceilings_for
from ..analysis.report.page_limits import roofline_points
from ..errors import InputError
from ..files.whole_files import write_bytes
from ..results.node import Node
from ..results.profile import Profile
from .formats import PICTURE_SUFFIXES

LEAST = 0.004
"""Share of the width below which a module is not drawn."""
WIDTHS = {"time": "latency", "flops": "step_flops", "params": "params", "saved": "activation_bytes"}
"""What the width of a bar can stand for, and the figure that it is."""
HUES = {
    "parameters": 214, "buffers": 192, "optimizer": 262, "inputs": 172, "gradients": 32, "buckets": 52, "gathered": 312,
    "activations": 142, "recomputed": 84, "temporaries": 352,
}  # fmt: skip
"""The report page's colour of each kind of memory, as an angle."""


def icicle(profile: Profile, path: str | Path, by: str | None = None) -> Path:
    """Write the icicle; `by` is time, flops, params or saved, as a rule time where the profile was timed."""
    chosen = by or ("time" if profile.root.latency else "flops")
    if chosen not in WIDTHS:
        raise InputError(f"An icicle cannot be drawn by {chosen!r}; it can be drawn by {', '.join(WIDTHS)}.")
    bars = list(_bars(profile.root, chosen))
    figure, axes = _figure(0.35 * (1 + max(level for *_, level in bars)) + 0.4)
    kinds = sorted({node.kind for node, *_ in bars})
    for node, left, width, level in bars:
        shade = kinds.index(node.kind) / max(1, len(kinds))
        axes.barh(-level, width, left=left, height=0.92, color=_colour(shade), edgecolor="white", linewidth=0.5)
        if width > 0.05:
            name = f"{node.name}: {node.kind}" if node.name else node.kind
            axes.text(
                left + width / 2, -level, _plain(name[: int(width * 110)]), ha="center", va="center", fontsize=7
            )  # fmt: skip
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_title(_plain(f"{profile.root.kind}, width by {chosen}"), fontsize=9)
    return _write(figure, path)


def roofline(profile: Profile, path: str | Path, *, on: str | None = None) -> Path:
    """Write the roofline of the profile's device, or of the device `on`: every module that computes something is a point.

    A line reaches from a module's unfused to its fully fused intensity. A module without a time is at the roof.
    """
    ceilings = ceilings_for(profile, on)
    data = roofline_points(profile, list(profile.walk()), ceilings, timed=on is None) if ceilings is not None else None
    if data is None:
        raise InputError(
            f"There is no roofline of {profile.root.kind}: no ceilings of its device are known, or nothing in it "
            f"multiplies matrices. Name a device: on='h100-sxm', --on h100-sxm."
        )
    bandwidth, peaks, points = data["bandwidth"], data["peaks"], data["points"]
    best = max(peak["flops"] for peak in peaks)
    figure, axes = _figure(4.2)
    longest = max(point["seconds"] or 0.0 for point in points)
    for point in points:
        rate = point["rate"] or min(point["peak"] or best, point["low"] * bandwidth)
        size = 8 + 90 * (point["seconds"] or 0.0) / longest if longest else 30
        axes.plot((point["low"], point["high"]), (rate, rate), color=_colour(0.6), linewidth=1, zorder=2)
        axes.scatter(point["low"], rate, s=size, color=_colour(0.6, 0.55), edgecolor="white", linewidth=0.5, zorder=3)
    least = min(point["low"] for point in points) / 3
    most = max(*(point["high"] for point in points), best / bandwidth) * 3
    for peak in peaks:
        ridge = peak["flops"] / bandwidth
        axes.plot((least, ridge, most), (least * bandwidth, peak["flops"], peak["flops"]), color="black", linewidth=1)
        text = f"{peak['name']} {units.si(peak['flops'])}FLOP/s, ridge at {units.si(ridge)}"
        axes.annotate(_plain(text), (most, peak["flops"]), (-2, 3), textcoords="offset points", ha="right", fontsize=7)
    axes.set(xscale="log", yscale="log", xlabel="FLOPs per byte", ylabel="FLOP/s", xlim=(least, most))
    axes.set_title(_plain(f"{profile.root.kind} on {data['device']}"), fontsize=9)
    axes.grid(color="0.92", zorder=0)
    return _write(figure, path)


def curve(profile: Profile, path: str | Path) -> Path:
    """Write memory over the step: kinds stacked, phases marked, the peak named."""
    found = profile.memory_curve
    if found is None:
        raise InputError(
            f"The profile of {profile.root.kind} has no memory curve: it was made without memory, or by an older flopsight."
        )
    figure, axes = _figure(3.6)
    colours = [_colour(HUES.get(kind, 0) / 360, 0.5) for kind in found.stacked]
    sizes = [found.kinds[kind] for kind in found.stacked]
    axes.stackplot(found.at, sizes, labels=list(map(_plain, found.stacked)), colors=colours, step="post", linewidth=0)
    top, peak = max(found.total), found.highest
    for phase, points in groupby(range(1, len(found.at)), lambda point: found.phases[point]):
        first, *rest = points
        begin, end = found.at[first - 1], found.at[rest[-1] if rest else first]
        if end - begin > 0.08 * found.at[-1]:
            axes.axvline(begin, color="0.5", linewidth=0.6, linestyle=":")
            axes.annotate(phase, (begin, top * 1.12), (2, 0), textcoords="offset points", fontsize=7, color="0.4")
    where = " of ".join(part for part in (found.phases[peak], found.modules[peak]) if part)
    axes.plot(found.at[peak], top, "o", color="black", markersize=3)
    axes.annotate(
        _plain(f"peak {units.size(top)}, {where}"),
        (found.at[peak], top),
        (0, 4),
        textcoords="offset points",
        ha="center",
        fontsize=7,
    )
    axes.set(xlim=(0, found.at[-1] or 1), ylim=(0, top * 1.2 or 1), xlabel="allocations and releases in their order")
    axes.yaxis.set_major_formatter(lambda value, _place: units.size(int(value)))
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(0.91, 0.5), fontsize=7, frameon=False)
    axes.set_title(_plain(f"Memory over the step of {profile.root.kind}"), fontsize=9)
    return _write(figure, path)


def _bars(root: Node, by: str) -> Iterator[tuple[Node, float, float, int]]:
    """Every module wide enough to be seen: where it begins, how wide it is, how deep it lies."""
    read = BOOK[WIDTHS[by]].of_node or (lambda _node: None)

    def size(node: Node) -> float:
        return read(node) or 0.0

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
    figure = Figure(figsize=(10, height))
    return figure, figure.subplots()


def _write(figure: Any, path: str | Path) -> Path:
    suffix = Path(path).suffix
    if suffix not in PICTURE_SUFFIXES:
        raise InputError(f"{path} is no picture that can be written; its suffix can be {', '.join(PICTURE_SUFFIXES)}.")
    drawn = BytesIO()
    figure.savefig(drawn, format=suffix.removeprefix("."), bbox_inches="tight", dpi=200)
    return write_bytes(path, drawn.getvalue())


def _plain(text: str) -> str:
    """A name as it is: matplotlib takes what is between two dollar signs for a formula."""
    return text.replace("$", r"\$")


def _colour(shade: float, depth: float = 0.28) -> Any:
    from matplotlib.colors import hsv_to_rgb

    return hsv_to_rgb((shade, depth, 0.93 if depth < 0.4 else 0.82))
