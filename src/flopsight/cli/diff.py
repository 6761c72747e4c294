"""`flopsight diff`: what changed between two saved profiles, without torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import CheckFailed, InputError
from ..files.store import load, load_profile
from ..files.whole_files import check_writable
from ..results.run import Run


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A profile saved as JSON.", show_default=False)],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The profile to compare with it.", show_default=False)],
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", metavar="FIGURE:SHARE", help="Fail (exit code 1) if it got worse by more: flops:0%, latency:10%."),
    ] = None,
    tolerance: Annotated[str, typer.Option("--tolerance", help="Times that differ by less are the same.")] = "5%",
    format: Annotated[str, typer.Option("-f", "--format", help="How to print: text, or markdown for a pull request.")] = "text",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A page of it too: what.html.", show_default=False)] = None,
) -> None:  # fmt: skip
    """Compare two saved profiles: figures, and modules by name."""
    from ..analysis.compare import compare, parse_allowed, violations
    from ..units import parse_share

    allowed = parse_allowed(fail_on or [])
    if output is not None:
        if output.suffix != ".html":
            raise InputError(
                f"-o {output} must end in .html; text and markdown are printed, so send them to a file with >."
            )
        check_writable(output)
    runs = [found for found in map(load, (before, after)) if isinstance(found, Run)]
    if len(runs) == 2:
        from ..render.run_page import difference

        if output is not None or allowed or format != "text":
            raise InputError("Two monitored runs are compared as text: leave out --fail-on, -f and -o.")
        print(difference(*runs))
        return
    comparison = compare(load_profile(before), load_profile(after), parse_share(tolerance))
    if format == "text" and sys.stdout.isatty():
        from rich.console import Console

        from ..render.comparison import page
        from ..render.console import draw

        console = Console()
        draw(page(comparison), console, console.width)
    else:
        print(comparison.render(format))
    if output is not None:
        comparison.to_html(output)
    broken = violations(comparison, allowed)
    if broken:
        raise CheckFailed(" ".join(broken))
