"""Memory by module: what it owns, what it keeps for backward, how far its forward grew, and its part of the peak."""

from __future__ import annotations

from .. import units
from ..analysis.figures import shown
from ..analysis.folding import shortened
from ..analysis.tables import tree_rows
from ..results.profile import Profile
from ..results.records import BACKWARD
from .page import Column, Heading, Lines, Page
from .summary import caveat_lines, title
from .tree import legend, tree_grid

OF_PARAMETERS = ("param_bytes", "grad_bytes", "optimizer_bytes")
"""What a module has as long as it lives stands before what a run makes."""
OF_MODULES = {"peak_bytes": ("at peak", "made by its ops and alive at the peak")}
"""The head and meaning of a figure that is another one of a module than of the whole."""


def page(profile: Profile, *, depth: int | None = None, max_rows: int | None = 100, full: bool = False) -> Page:
    """What the view shows: down to `depth`, at most `max_rows` rows; `full` draws every module."""
    root = shortened(profile.root, depth, max_rows, full=full)
    nodes = list(root.walk())
    rows = tree_rows(root)
    known = {
        OF_MODULES.get(figure.key, (figure.short, figure.about)): tuple(map(figure.of_node, nodes))
        for figure in sorted(shown("memory"), key=lambda figure: figure.key not in OF_PARAMETERS)
        if figure.of_node and (figure.phase != BACKWARD or profile.trained)
    }
    known = {said: sizes for said, sizes in known.items() if any(sizes)}
    columns = [
        Column(head, tuple("" if size is None else units.size(size) for size in sizes), keep=90 - i)
        for i, ((head, _), sizes) in enumerate(known.items())
    ]
    return [
        Heading(title(profile)),
        tree_grid(rows, columns),
        Lines((*legend(rows, "memory"), *(f"{head}: {about}" for head, about in known)), "dim"),
        Lines(_peak(profile)),
        Lines(caveat_lines(profile), "yellow"),
    ]


def _peak(profile: Profile) -> tuple[str, ...]:
    """The peak and what was alive at it, largest first."""
    if not profile.peak_bytes:
        return ()
    parts = profile.largest_at_peak
    lines = [f"  {kind:<14}{units.size(size):>9}  {units.percent(size / profile.peak_bytes)}" for kind, size in parts]
    return (f"Peak memory {units.size(profile.peak_bytes)}{', of which' if lines else ''}", *lines)
