"""`flopsight merge`: the profiles of many ranks as one job, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .views import prepare_view


def merge(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds one saved profile per rank.", show_default=False)],
    output: options.Outputs = None,
    format: options.Format = "tree",
    depth: options.Depth = None,
    top: options.Top = None,
    full: options.Full = False,
    width: options.Width = None,
    sort: options.Sort = None,
) -> None:  # fmt: skip
    """Join the profiles of a job's ranks: side by side, and as one model."""
    from ..distributed.join import merge as merge_folder

    view = prepare_view(format, depth=depth, top=top, full=full, width=width, sort=sort, outputs=output or ())
    view.present(merge_folder(folder))
