"""A monitored run as a page: figures over time as drawings in the page itself, with slow steps marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from .. import units
from ..results.run import Interval, Run, thinned
from . import render
from . import svg_pieces as svg
from .html.static import head, standalone
from .notebook import table
from .page import Column, Grid
from .palette import LINE
from .run_page import facts, tiles, verdict, where

POINTS = 400
"""Points of a curve, at most."""
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 180, 70, 12, 24
Read = Callable[[Interval], float | None]
CURVES: tuple[tuple[str, Read, Callable[[float], str]], ...] = (
    ("MFU", lambda one: one.mfu, units.percent),
    ("Tokens a second", lambda one: one.tokens_per_second, units.si),
    ("Samples a second", lambda one: one.samples_per_second, units.si),
    ("Seconds a step", lambda one: one.step_seconds, units.seconds),
    ("Waiting for data, seconds a step", lambda one: one.data_wait_seconds, units.seconds),
    ("Peak memory", lambda one: one.peak_bytes, units.size),
    ("Joules a step", lambda one: one.joules, units.si),
)
MOST_SLOW = 200
"""Slow steps that are marked and listed."""
LOOK = """
svg { width: 100%; height: auto; } text { font: 11px system-ui, sans-serif; fill: var(--soft); } .slow { opacity: .6; }
@media (max-width: 600px) { svg { overflow: visible; } text { font-size: 22px; } }
"""


def page(run: Run) -> str:
    """The whole page; it needs no script and no other file."""
    title = f"{run.model or 'A run'}: {run.steps:,} step{'s' if run.steps != 1 else ''}"
    return standalone(title, f"{head(title, where(run), verdict(run), tiles(run))}\n{_details(run)}", LOOK)


def body(run: Run) -> str:
    """The page without its title and tiles, for a notebook."""
    return f'<p class="soft">{escape(where(run))}</p>\n{_details(run)}'


def _details(run: Run) -> str:
    parts: list[str] = []
    if run.whole is not None:
        rows = "".join(f"<div><span>{escape(n)}</span><span>{escape(v)}</span></div>" for n, v in facts(run))
        parts += [f'<div class="cards"><div class="card">{rows}</div></div>', *_curves(run)]
    if run.slow:
        parts += ["<h2>Slow steps</h2>", table(_slow(run))]
    parts += [f'<p class="warn">{escape(note)}</p>' for note in run.notes]
    if run.profile is not None:
        drawn = render(run.profile, "tree", depth=3)
        parts += ["<h2>The first counted call, by module</h2>", f"<pre>{escape(drawn)}</pre>"]
    return "\n".join(parts)


def _curves(run: Run) -> list[str]:
    intervals = thinned(run.intervals, POINTS)
    found = []
    for title, read, text in CURVES:
        points = [(one.first + one.steps / 2, value) for one in intervals if (value := read(one)) is not None]
        if points:
            found += [f"<h2>{escape(title)}</h2>", _drawing(points, run, text, title)]
    return found


def _drawing(points: Sequence[tuple[float, float]], run: Run, text: Callable[[float], str], title: str) -> str:
    most, steps, base = max(value for _, value in points) or 1.0, max(1, run.steps), HEIGHT - BOTTOM

    def place(step: float, value: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT) * step / steps, TOP + (base - TOP) * (1 - value / most)

    drawn = [svg.line(LEFT, y, WIDTH, y, "var(--line)") for _, y in (place(0, value) for value in (most, most / 2, 0))]
    drawn += [svg.words(LEFT - 6, place(0, value)[1] + 4, text(value), anchor="end") for value in (most, most / 2)]
    for slow in run.slow[:MOST_SLOW]:
        x, said = place(slow.step, 0)[0], escape(f"step {slow.step:,}: {slow.why}")
        drawn.append(f'<g class="slow">{svg.line(x, TOP, x, base, "var(--warn)")}<title>{said}</title></g>')
    placed = [place(*point) for point in points]
    drawn.append(svg.curve(placed, LINE, 1.5) if len(placed) > 1 else svg.dot(*placed[0], LINE, 2))
    drawn += [svg.words(LEFT, HEIGHT - 6, "step 0"), svg.words(WIDTH, HEIGHT - 6, f"step {steps - 1:,}", anchor="end")]
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(drawn)}</svg>'


def _slow(run: Run) -> Grid:
    slow = sorted(run.slow, key=lambda slow: slow.step)[:MOST_SLOW]
    return Grid((
        Column("step", tuple(f"{one.step:,}" for one in slow)),
        Column("took", tuple(units.seconds(one.seconds) for one in slow)),
        Column("usually", tuple(units.seconds(one.usual) for one in slow)),
        Column("what grew", tuple(one.why for one in slow), right=False),
    ))  # fmt: skip
