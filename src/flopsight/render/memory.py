"""Memory by module: what it owns, what it keeps for backward, how far its forward grew, and its part of the peak."""

from __future__ import annotations

from collections.abc import Callable

from .. import units
from ..analysis.folding import shortened
from ..analysis.tables import tree_rows
from ..results.node import Node
from ..results.profile import Profile
from .page import Column, Grid, Heading, Lines, Page
from .summary import caveat_lines, title
from .tree import label, legend

GRADIENTS = "gradients"
FIGURES: dict[str, tuple[str, Callable[[Node], int | None]]] = {
    "params": ("its parameters", lambda node: node.param_bytes),
    GRADIENTS: ("gradients of those that are trained", lambda node: node.grad_bytes),
    "optimizer": ("what the optimizer keeps for them", lambda node: node.optimizer_bytes),
    "saved": (
        "activations kept for backward, each for the module that saved it first",
        lambda node: node.activation_bytes,
    ),
    "allocated": ("growth of memory during its forward", lambda node: node.allocated_bytes),
    "at peak": ("made by its ops and alive at the peak", lambda node: node.peak_bytes),
}
"""What each column shows, and the figure of a module."""


def page(profile: Profile, *, depth: int | None = None, max_rows: int | None = 100, full: bool = False) -> Page:
    """What the view shows: down to `depth`, at most `max_rows` rows; `full` draws every module."""
    root = shortened(profile.root, depth, max_rows, full=full)
    nodes = list(root.walk())
    rows = tree_rows(root)
    names = Column("module", tuple("  " * row.depth + label(row) for row in rows), right=False, style="bold")
    shown = {
        name: tuple(map(figure, nodes)) for name, (_, figure) in FIGURES.items() if name != GRADIENTS or profile.trained
    }
    shown = {name: sizes for name, sizes in shown.items() if any(sizes)}
    columns = [Column(name, tuple(map(_size, sizes)), keep=90 - i) for i, (name, sizes) in enumerate(shown.items())]
    return [
        Heading(title(profile)),
        Grid((names, *columns), depths=tuple(row.depth for row in rows)),
        Lines((*legend(rows, "memory"), *(f"{name}: {FIGURES[name][0]}" for name in shown)), "dim"),
        Lines(_peak(profile)),
        Lines(caveat_lines(profile), "yellow"),
    ]


def _size(value: int | None) -> str:
    return "" if value is None else units.size(value)


def _peak(profile: Profile) -> tuple[str, ...]:
    """The peak and what was alive at it, largest first."""
    if not profile.peak_bytes:
        return ()
    parts = profile.largest_at_peak
    lines = [f"  {kind:<14}{units.size(size):>9}  {units.percent(size / profile.peak_bytes)}" for kind, size in parts]
    return (f"Peak memory {units.size(profile.peak_bytes)}{', of which' if lines else ''}", *lines)
