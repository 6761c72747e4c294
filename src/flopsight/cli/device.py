"""`flopsight device`: what hardware is here, a row of the table, or what this machine reaches."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from ..errors import InputError
from ..progress import Progress
from .completion import complete_any_device

HERE = re.compile(r"(cpu|cuda|mps|xpu|hpu|npu|meta|hip)(:\d+)?")
"""Names that torch gives to devices of this machine; any other is looked up in the table."""


def device(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[DEVICE]",
            help="cuda, cuda:1, mps, cpu, or a row of the table such as h100-sxm; the default is what torch would use.",
            autocompletion=complete_any_device,
        ),
    ] = None,
    peak: Annotated[
        str | None, typer.Option("--peak", help="State dense peaks in FLOP/s: bf16=989e12,fp32=67e12.")
    ] = None,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Measure what this device reaches, half a minute, and keep it for limits."),
    ] = False,
) -> None:
    """Show a device, its dense peaks, where those figures come from, and what was measured on this machine."""
    from ..hardware.device_page import lines, row_lines

    if name is not None and not HERE.fullmatch(name.strip().lower()):
        from ..hardware.named import named_device

        if measure or peak:
            raise InputError(f"{name} is a row of the table; --measure and --peak are for a device of this machine.")
        print("\n".join(row_lines(named_device(name))))
        return
    from ..hardware.detect import detect

    found = detect(name, peak_flops=peak)
    if measure:
        import torch

        from ..files.whole_files import check_writable
        from ..hardware.known_ceilings import cache_file, remember
        from ..hardware.measured import measure as measure_ceilings

        check_writable(cache_file())
        with Progress() as say:
            ceilings = measure_ceilings(found, lambda what: say(f"measuring {what}", timed=True))
        kept = remember(ceilings, torch.get_num_threads())
        print(f"Saved {kept}", file=sys.stderr)
    print("\n".join(lines(found)))
