"""`flopsight show`: draw a saved profile, without torch."""

from __future__ import annotations

from ..store import load
from . import options
from .views import View


def show(
    profile: options.ProfileFile,
    format: options.Format = "tree",
    depth: options.Depth = None,
    top: options.Top = None,
    full: options.Full = False,
    width: options.Width = None,
    sort: options.Sort = None,
    output: options.Output = None,
) -> None:
    """Draw a saved profile in any format."""
    view = View(format, depth, top, full, width, sort, output)
    view.present(load(profile))
