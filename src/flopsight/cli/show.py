"""`flopsight show`: draw a saved profile, or several side by side, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from ..files.store import load, load_profile
from ..files.whole_files import check_writable
from ..render.formats import find_printed
from ..results.plan import Plan
from ..results.run import Run
from ..results.sweep import Sweep
from . import options
from .plan import present_plan
from .views import prepare_view, save_and_print


def show(
    profiles: options.ProfileFiles,
    format: options.Format = "tree",
    depth: options.Depth = None,
    top: options.Top = None,
    full: options.Full = False,
    width: options.Width = None,
    sort: options.Sort = None,
    on: options.On = None,
    columns: options.Columns = None,
    output: options.Outputs = None,
) -> None:
    """Draw a saved profile in any format; several stand side by side, and two make a page of what changed."""
    if len(profiles) > 1:
        _side_by_side(profiles, "table" if format == "tree" else format, columns, output or ())
        return
    find_printed(format)
    found = load(profiles[0])
    if isinstance(found, Plan):
        present_plan(found, output or (), top=top, width=width)
        return
    if isinstance(found, Run):
        _run(found, format, output or ())
        return
    if isinstance(found, Sweep):
        _sweep(found, format, width, output or ())
        return
    view = prepare_view(
        format, depth=depth, top=top, full=full, width=width, sort=sort, on=on, columns=columns, outputs=output or ()
    )
    view.present(found)


def _run(found: Run, format: str, outputs: Sequence[Path]) -> None:
    """A monitored run, as text and as pages."""
    if format != "tree":
        raise InputError(f"A monitored run is not drawn as {format}: leave -f out, or write a page with -o run.html.")
    for path in outputs:
        if path.suffix != ".html":
            raise InputError(f"-o {path} must end in .html: a monitored run is printed, or written as a page.")
        check_writable(path)
    save_and_print(str(found), outputs, found.to_html)


def _sweep(found: Sweep, format: str, width: int | None, outputs: Sequence[Path]) -> None:
    """A sweep, as text in a format and as files."""
    from ..render.sweep_page import check_file, text

    for path in outputs:
        check_file(path, found.axes)
        check_writable(path)
    save_and_print(text(found, format, width), outputs, found.save)


def _side_by_side(paths: Sequence[Path], format: str, columns: str | None, outputs: Sequence[Path]) -> None:
    from ..render.side_by_side import render

    pages = [path for path in outputs if path.suffix == ".html"]
    if len(pages) < len(outputs):
        raise InputError(
            "Several profiles are printed, so send them to a file with >; -o takes x.html for a page of two."
        )
    if pages and len(paths) > 2:
        raise InputError(f"A page compares two profiles, not {len(paths)}.")
    found = [load_profile(path) for path in paths]
    print(render(found, [path.stem for path in paths], format, columns), end="")
    if pages:
        from ..analysis.compare import compare

        for path in pages:
            compare(found[0], found[1]).to_html(path)
