"""`flopsight show`: draw a saved profile, without torch."""

from __future__ import annotations

from ..store import load
from . import options
from .views import check_format, check_output, write


def show(
    profile: options.ProfileFile,
    format: options.Format = "tree",
    depth: options.Depth = None,
    top: options.Top = None,
    full: options.Full = False,
    width: options.Width = None,
    output: options.Output = None,
) -> None:
    """Draw a saved profile in any format."""
    check_format(format)
    check_output(output)
    loaded = load(profile)
    print(loaded.render(format, depth=depth, top=top, full=full, width=width))
    if output is not None:
        write(loaded, output, depth=depth, top=top, full=full, width=width)
