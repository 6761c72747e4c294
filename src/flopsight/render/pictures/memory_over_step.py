"""Memory over the step: kinds stacked, phases marked, the peak named."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from ... import units
from ...errors import InputError
from ...results.memory_curve import MemoryCurve
from ...results.profile import Profile
from ..palette import GREY, MEMORY_HUES
from .canvas import COLUMN, SMALL, USUAL, Picture, canvas, plain, tick


def drawn(profile: Profile, width: float) -> Picture:
    """The curve of the counted step."""
    found = profile.memory_curve
    if found is None:
        raise InputError(
            f"The profile of {profile.root.kind} has no memory curve: it was made without memory, or by an older flopsight."
        )
    picture, axes = canvas(width, max(2.4, 0.4 * width))
    sizes = [found.kinds[kind] for kind in found.stacked]
    shades = [MEMORY_HUES.get(kind, GREY) for kind in found.stacked]
    axes.stackplot(found.at, sizes, labels=list(map(plain, found.stacked)), colors=shades, step="post", linewidth=0)
    top = max(found.total)
    _mark_phases(axes, found, top)
    _mark_peak(axes, found, top)
    axes.set(xlim=(0, found.at[-1] or 1), ylim=(0, top * 1.25 or 1), xlabel="allocations and releases in their order")
    axes.set_ylabel("bytes alive")
    axes.yaxis.set_major_formatter(lambda value, _place: tick(units.size(int(value))))
    axes.tick_params(labelsize=SMALL)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    narrow = width <= COLUMN
    picture.legend(
        handles[::-1], labels[::-1], loc="outside lower center" if narrow else "outside right upper", fontsize=SMALL,
        ncols=3 if narrow else 1, frameon=False, handlelength=1.0,
    )  # fmt: skip
    axes.set_title(plain(f"Memory over the step of {profile.root.kind}"), fontsize=USUAL)
    return picture


def _mark_phases(axes: Any, found: MemoryCurve, top: int) -> None:
    for phase, points in groupby(range(1, len(found.at)), lambda point: found.phases[point]):
        first, *rest = points
        begin, end = found.at[first - 1], found.at[rest[-1] if rest else first]
        if end - begin > 0.08 * found.at[-1]:
            axes.axvline(begin, color="0.5", linewidth=0.6, linestyle=":")
            axes.annotate(phase, (begin, top * 1.16), (2, 0), textcoords="offset points", fontsize=SMALL, color="0.35")


def _mark_peak(axes: Any, found: MemoryCurve, top: int) -> None:
    peak = found.highest
    where = " of ".join(part for part in (found.phases[peak], found.modules[peak]) if part)
    side = "left" if found.at[peak] < found.at[-1] / 2 else "right"
    axes.plot(found.at[peak], top, "o", color="black", markersize=2.5)
    axes.annotate(
        plain(f"peak {units.size(top)}, {where}"), (found.at[peak], top), (0, 4), textcoords="offset points", ha=side,
        fontsize=SMALL,
    )  # fmt: skip
