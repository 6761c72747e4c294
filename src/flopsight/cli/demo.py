"""`flopsight demo`: an embedded model, profiled and shown."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import which
from typing import Annotated

import typer

from ..progress import Progress
from ..targets.loading import load_target
from . import options
from .short_measurement import short_measurement
from .views import prepare_view

MODEL = "zoo:resnet18"


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to save the profile.")] = Path(
        "flopsight-demo.json"
    ),
    no_measure: options.NoMeasure = False,
) -> None:
    """Profile an embedded ResNet-18, show it and save it."""
    from ..engine.target_profile import profile_target

    view = prepare_view(outputs=(output,))
    target = load_target(MODEL)
    result = profile_target(target, warmup=2, repeats=5)
    if not no_measure:
        with Progress() as say:
            ceilings = short_measurement(target, partial(say, timed=True))
        result = replace(result, ceilings=ceilings or result.ceilings)
    print(f"$ flopsight profile {MODEL} -o {output}\n")
    view.present(result)
    print(f"\nThe profile is saved in {output.resolve()}. It opens without torch:")
    show = f"{_command()} show {shlex.quote(str(output))}"
    print(f"  {show} -f table       heaviest modules first")
    print(f"  {show} -o report.html the report page, for a browser")
    print(f"Your own model: {_command()} profile yourfile.py:factory -i 8x3x224x224")


def _command() -> str:
    """How the user can call us again: by name if the shell would find it."""
    return "flopsight" if which("flopsight") else shlex.join([sys.executable, "-m", "flopsight"])
