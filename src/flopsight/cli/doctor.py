"""`flopsight doctor`: does flopsight work with what is installed here."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from .completion import complete_device


def doctor(
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            help="cuda, cuda:1, cpu; the default is what torch would use.",
            autocompletion=complete_device,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Check that flopsight works with the torch that is installed, and name the figures that do not. Exit code 0 or 1."""
    from ..doctor.checkup import lines
    from ..doctor.examine import examine

    examination = examine(device)
    print(json.dumps(examination.as_json(), indent=2) if as_json else "\n".join(lines(examination)))
    return 0 if examination.fine else 1
