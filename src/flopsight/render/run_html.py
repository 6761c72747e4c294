"""A monitored run as a page: figures over time as drawings in the page itself, with slow steps marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from .. import units
from ..results.run import Interval, Run, thinned
from . import render
from .html.static import standalone
from .run_page import facts, where

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
LOOK = """
svg { width: 100%; height: auto; } .line { fill: none; stroke: #4f7cff; stroke-width: 1.5; } .axis { stroke: var(--line); }
text { font: 11px system-ui, sans-serif; fill: var(--soft); } .slow { stroke: var(--warn); stroke-width: 1; opacity: .6; }
"""


def page(run: Run) -> str:
    """The whole page; it needs no script and no other file."""
    title = f"{run.model or 'A run'}: {run.steps:,} steps"
    return standalone(title, f"<h1>{escape(title)}</h1>\n{body(run)}", LOOK)


def body(run: Run) -> str:
    """Everything below the title."""
    parts = [f'<p class="soft">{escape(where(run))}</p>']
    if run.whole is not None:
        rows = "".join(f"<div><span>{escape(n)}</span><span>{escape(v)}</span></div>" for n, v in facts(run))
        parts += [f'<div class="cards"><div class="card">{rows}</div></div>', *_curves(run)]
    if run.slow:
        parts += ["<h2>Slow steps</h2>", _slow(run)]
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
    most = max(value for _, value in points) or 1.0
    steps = max(1, run.steps)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT) * step / steps

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most)

    line = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in points)
    marks = "".join(
        f'<line class="slow" x1="{x(slow.step):.1f}" x2="{x(slow.step):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}">'
        f"<title>{escape(f'step {slow.step:,}: {slow.why}')}</title></line>"
        for slow in run.slow[:200]
    )
    scale = "".join(
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{escape(text(value))}</text>'
        for value in (most, most / 2)
    )
    base = HEIGHT - BOTTOM
    dots = "".join(
        f'<circle cx="{x(step):.1f}" cy="{y(value):.1f}" r="2" fill="#4f7cff"/>' for step, value in points[:1]
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{scale}'
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{base}" y2="{base}"/>{marks}'
        f'<polyline class="line" points="{line}"/>{dots if len(points) == 1 else ""}'
        f'<text x="{LEFT}" y="{HEIGHT - 6}">step 0</text>'
        f'<text x="{WIDTH}" y="{HEIGHT - 6}" text-anchor="end">step {steps - 1:,}</text></svg>'
    )


def _slow(run: Run) -> str:
    rows = "".join(
        f"<tr><td>{slow.step:,}</td><td>{units.seconds(slow.seconds)}</td><td>{units.seconds(slow.usual)}</td>"
        f"<td>{escape(slow.why)}</td></tr>"
        for slow in sorted(run.slow, key=lambda slow: slow.step)[:200]
    )
    return f"<table><tr><th>step</th><th>took</th><th>usually</th><th>what grew</th></tr>{rows}</table>"
