"""One traced run as bars over time: phases, modules by depth in forward and backward, then the ops or kernels that they ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ... import units
from ...analysis.traced_phases import traced_phases
from ...errors import InputError
from ...results.profile import Profile
from ...results.records import BACKWARD, Span
from ..palette import GREY, HUES, PHASES, pale
from .canvas import SMALL, USUAL, Picture, canvas, ink, plain, tick

ROW = 0.22
MOST_DEPTHS = 6
"""Levels of modules that are drawn; deeper ones are too short to be read."""
LEAST = 0.001
"""Share of the run below which neighbours are drawn as one bar."""
Lane = tuple[str, str, Sequence[Span]]
"""Title, colour and bars of a row."""


def drawn(profile: Profile, width: float) -> Picture:
    """The bars of the profile's traced run."""
    spans = profile.timeline
    if not spans:
        raise InputError("The profile has no timeline. Take one: flopsight.profile(..., timeline=True).")
    lanes = _lanes(profile)
    end = max(span.end for span in spans)
    picture, axes = canvas(width, ROW * len(lanes) + 0.7)
    axes.set(xlim=(0, end), ylim=(0.5 - len(lanes), 0.5), xlabel="time")
    axes.set_yticks([-place for place in range(len(lanes))], [title for title, _, _ in lanes], fontsize=SMALL)
    axes.xaxis.set_major_formatter(lambda value, _place: tick(units.seconds(value / 1e9)))
    axes.tick_params(labelsize=SMALL, length=2)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(plain(f"One run of {profile.root.kind}, traced: {units.seconds(end / 1e9)}"), fontsize=USUAL)
    inches = picture.settle(axes)
    for place, (_, colour, inside) in enumerate(lanes):
        _draw_lane(axes, -place, inside, colour, inches / end)
    for phase in traced_phases(profile)[1:]:
        axes.axvline(phase.begin, color="0.4", linewidth=0.5, linestyle=":", zorder=0)
    return picture


def _lanes(profile: Profile) -> list[Lane]:
    """The phases, modules by how many modules of the same thread they run in, then ops, or streams of kernels."""
    spans = profile.timeline
    modules = _by_depth(spans)
    kernels = [span for span in spans if span.kind == "kernel"]
    work = kernels or _outermost(span for span in spans if span.kind == "op")
    for depth, bars in enumerate(_backward_modules(work, profile.root.kind)):
        modules.setdefault(depth, []).extend(bars)
    found: list[Lane] = [("phases", "", phases)] if (phases := traced_phases(profile)) else []
    found += [
        ("modules" if not depth else "", HUES[0] if depth % 2 else pale(HUES[0]), modules[depth])
        for depth in sorted(modules)[:MOST_DEPTHS]
        if modules[depth]
    ]
    streams = sorted({span.lane for span in kernels})
    found += [(f"stream {lane}", HUES[1], [span for span in kernels if span.lane == lane]) for lane in streams]
    return found if kernels else [*found, ("ops", HUES[1], work)]


def _by_depth(spans: Iterable[Span]) -> dict[int, list[Span]]:
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
    return modules


def _backward_modules(work: Iterable[Span], root: str) -> list[list[Span]]:
    """The modules that backward worked for, level by level: neighbouring work of one module is one bar."""
    done = [span for span in work if span.phase == BACKWARD]
    levels = []
    for depth in range(MOST_DEPTHS if done else 0):
        bars = []
        for path, alike in groupby(done, lambda span, depth=depth: tuple(span.path.split(".")[:depth])):  # type: ignore[misc]
            first, *rest = alike
            if len(path) == depth and "" not in path:
                name = path[-1] if path else root
                bars.append(replace(first, name=name, kind="module", end=max([first.end, *(one.end for one in rest)])))
        levels.append(bars)
    return levels


def _outermost(spans: Iterable[Span]) -> list[Span]:
    """Spans that no earlier one of their thread covers."""
    found: list[Span] = []
    until: dict[int, int] = {}
    for span in spans:
        if span.begin >= until.get(span.lane, 0):
            found.append(span)
            until[span.lane] = span.end
    return found


def _draw_lane(axes: Any, level: int, spans: Sequence[Span], colour: str, inches_a_tick: float) -> None:
    """Draw bars and their names; neighbours too short to be told apart are one bar without a name."""
    least = LEAST * axes.get_xlim()[1]
    pieces: list[tuple[float, float]] = []
    for span in sorted(spans, key=lambda span: span.begin):
        if pieces and span.end - span.begin < least and span.begin - sum(pieces[-1]) < least:
            pieces[-1] = pieces[-1][0], max(span.end - pieces[-1][0], pieces[-1][1])
        else:
            pieces.append((span.begin, max(span.end - span.begin, least)))
    phases = level == 0 and not colour
    shades = [pale(PHASES.get(span.name, GREY)) for span in spans] if phases else colour
    axes.broken_barh(pieces, (level - 0.46, 0.92), facecolors=shades, edgecolor="white", linewidth=0.3)
    for span in spans:
        room = (span.end - span.begin) * inches_a_tick - 0.02
        text = axes.figure.fitted((span.name.rpartition(": ")[2],), room) if room > 0.05 else ""
        if text:
            at = (span.begin + span.end) / 2
            axes.text(at, level, text, ha="center", va="center", fontsize=SMALL, color=ink(colour or pale(GREY)))
