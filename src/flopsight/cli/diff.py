"""`flopsight diff`: what changed between two saved profiles, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import CheckFailed, InputError
from ..store import load_profile

if TYPE_CHECKING:
    from ..analysis.compare import Comparison


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A profile saved as JSON.", show_default=False)],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The profile to compare with it.", show_default=False)],
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", metavar="FIGURE:SHARE", help="Fail (exit code 1) where it got worse by more: flops:0%, latency:10%."),
    ] = None,
    tolerance: Annotated[str, typer.Option("--tolerance", help="Times that differ by less are the same.")] = "5%",
    format: Annotated[str, typer.Option("-f", "--format", help="How to print: text, or markdown for a pull request.")] = "text",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A page of it too: what.html.", show_default=False)] = None,
) -> None:  # fmt: skip
    """Compare two saved profiles: figures, and modules by name."""
    from ..analysis.compare import compare, parse_limits, violations
    from ..units import parse_share

    limits = parse_limits(fail_on or [])
    comparison = compare(load_profile(before), load_profile(after), parse_share(tolerance))
    print(comparison.render(format))
    if output is not None:
        _write(comparison, output)
    broken = violations(comparison, limits)
    if broken:
        raise CheckFailed(" ".join(broken))


def _write(comparison: Comparison, path: Path) -> None:
    if path.suffix != ".html":
        raise InputError(f"-o {path} must end in .html; text and markdown are printed, so send them to a file with >.")
    try:
        comparison.to_html(path)
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {problem.strerror or problem}.") from None
