"""One traced run as bars over time: modules by depth, then the ops or kernels that they ran."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import units
from ...errors import InputError
from ...results.profile import Profile
from ...results.records import Span
from ..palette import HUES
from .canvas import SMALL, USUAL, Picture, canvas, fitted, plain

ROW = 0.22
MOST_DEPTHS = 6
"""Levels of modules that are drawn; deeper ones are too short to be read."""
LEAST = 0.001
"""Share of the run below which a span is not drawn by itself."""


def drawn(profile: Profile, width: float) -> Picture:
    """The bars of the profile's traced run."""
    spans = profile.timeline
    if not spans:
        raise InputError("The profile has no timeline. Take one: flopsight.profile(..., timeline=True).")
    lanes = _lanes(spans)
    end = max(span.end for span in spans)
    picture, axes = canvas(width, ROW * len(lanes) + 0.7)
    for place, (title, inside) in enumerate(lanes):
        colour = HUES[1] if title in ("ops", "kernels") else HUES[0] if place % 2 else "#A8D8F0"
        _draw_lane(axes, -place, inside, colour, end, width)
    axes.set(xlim=(0, end), ylim=(0.5 - len(lanes), 0.5), xlabel="time")
    axes.set_yticks([-place for place in range(len(lanes))], [title for title, _ in lanes], fontsize=SMALL)
    axes.xaxis.set_major_formatter(lambda value, _place: units.seconds(value / 1e9))
    axes.tick_params(labelsize=SMALL, length=2)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(plain(f"One run of {profile.root.kind}, traced: {units.seconds(end / 1e9)}"), fontsize=USUAL)
    return picture


def _lanes(spans: tuple[Span, ...]) -> list[tuple[str, list[Span]]]:
    """Modules by how many modules of the same thread they run in, then ops, or kernels if a device ran."""
    modules: dict[int, list[Span]] = {}
    running: dict[int, list[Span]] = {}
    for span in spans:
        if span.kind != "module":
            continue
        around = running.setdefault(span.lane, [])
        while around and around[-1].end <= span.begin:
            around.pop()
        modules.setdefault(len(around), []).append(span)
        around.append(span)
    found = [("modules" if not depth else "", modules[depth]) for depth in sorted(modules)[:MOST_DEPTHS]]
    device = [span for span in spans if span.kind == "kernel"]
    work = device or _outermost(span for span in spans if span.kind == "op")
    return [*found, ("kernels" if device else "ops", work)]


def _outermost(spans: Iterable[Span]) -> list[Span]:
    """Spans that no earlier one of their thread covers."""
    found: list[Span] = []
    until: dict[int, int] = {}
    for span in spans:
        if span.begin >= until.get(span.lane, 0):
            found.append(span)
            until[span.lane] = span.end
    return found


def _draw_lane(axes: Any, level: int, spans: list[Span], colour: str, end: int, width: float) -> None:
    seen = [span for span in spans if span.end - span.begin >= LEAST * end]
    pieces = [(span.begin, span.end - span.begin) for span in seen]
    axes.broken_barh(pieces, (level - 0.46, 0.92), facecolors=colour, edgecolor="white", linewidth=0.3)
    for span in seen:
        room = (span.end - span.begin) / end * width * 0.8
        axes.text((span.begin + span.end) / 2, level, fitted(span.name, room), ha="center", va="center", fontsize=SMALL)
