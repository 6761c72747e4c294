"""`flopsight show`: draw a saved profile, without torch."""

from __future__ import annotations

from ..store import load
from . import options
from .views import prepare_view


def show(
    profile: options.ProfileFile,
    format: options.Format = "tree",
    depth: options.Depth = None,
    top: options.Top = None,
    full: options.Full = False,
    width: options.Width = None,
    sort: options.Sort = None,
    output: options.Outputs = None,
) -> None:
    """Draw a saved profile in any format."""
    view = prepare_view(format, depth=depth, top=top, full=full, width=width, sort=sort, outputs=output or ())
    view.present(load(profile))
