"""Pieces of a plot as SVG: straight lines, curves, dots and words; places are in the units of the drawing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .palette import SCALE, TEXT


def line(x1: float, y1: float, x2: float, y2: float, colour: str = SCALE) -> str:
    """A straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def curve(points: Sequence[tuple[float, float]], colour: str, width: float = 2) -> str:
    """A line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'


def dot(x: float, y: float, colour: str, radius: float = 4, *, hollow: bool = False) -> str:
    """A point that is seen by itself."""
    inside = "white" if hollow else colour
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{inside}" stroke="{colour}" stroke-width="2"/>'


def words(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, colour: str = TEXT) -> str:
    """A text that begins, ends or is centred at a place, by its anchor."""
    style = f'text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
