"""`flopsight show`: draw a saved profile, or several side by side, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..files.store import load, load_profile
from ..files.whole_files import check_writable
from ..hardware.named import named_device
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
    of_modules = {"--depth": depth, "--full": full, "--sort": sort, "--columns": columns}
    if isinstance(found, Plan):
        _plan(found, format, output or (), top=top, width=width, idle={**of_modules, "--on": on})
        return
    if isinstance(found, Run):
        _refuse("A monitored run", {**of_modules, "--top": top, "--on": on})
        _run(found, format, output or ())
        return
    if isinstance(found, Sweep):
        _refuse("A sweep", {**of_modules, "--top": top})
        _sweep(found if on is None else replace(found, device=named_device(on).id), format, width, output or ())
        return
    view = prepare_view(
        format, depth=depth, top=top, full=full, width=width, sort=sort, on=on, columns=columns, outputs=output or ()
    )
    view.present(found)


def _refuse(what: str, idle: Mapping[str, object]) -> None:
    """Refuse options that would change nothing of what is drawn."""
    given = [name for name, value in idle.items() if value not in (None, False)]
    if given:
        raise InputError(
            f"{what} is drawn without {' and '.join(given)}: leave {'it' if len(given) == 1 else 'them'} out."
        )


def _plan(
    found: Plan, format: str, outputs: Sequence[Path], *, top: int | None, width: int | None, idle: Mapping[str, object]
) -> None:
    """A plan, as text and as pages; it holds for the device that it was made for."""
    _refuse(f"A plan for {found.device}", idle)
    if format != "tree":
        raise InputError(f"A plan is not drawn as {format}: leave -f out, or write a page with -o plan.html.")
    present_plan(found, outputs, top=top, width=width)


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
