"""`flopsight device`: what hardware is here, and what it can do."""

from __future__ import annotations

from typing import Annotated

import typer


def device(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[DEVICE]", help="cuda, cuda:1, mps, cpu; the default is what torch would use."),
    ] = None,
    peak: Annotated[
        str | None, typer.Option("--peak", help="State dense peaks in FLOP/s: bf16=989e12,fp32=67e12.")
    ] = None,
) -> None:
    """Show which device was found, its dense peaks, and where those figures come from."""
    from ..hardware.detect import detect
    from ..hardware.report import lines

    print("\n".join(lines(detect(name, peak_flops=peak))))
