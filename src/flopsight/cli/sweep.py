"""`flopsight sweep`: one model at many sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..distributed.mesh_axes import parse_mesh
from ..progress import Progress, by_points
from ..render.sweep_page import SUFFIXES, check_file
from ..targets.axes import EXAMPLE, changed_address, check_sweep, parse_axes, sized_inputs
from ..targets.early_checks import check_names, check_target, find_target
from . import options
from .views import save_and_print


def sweep(
    target: options.TargetText,
    axes: Annotated[
        list[str], typer.Argument(metavar="AXIS=VALUES...", help=f"What varies: {EXAMPLE}.", show_default=False)
    ],
    input: options.Inputs = None,
    train: options.Train = False,
    meta: options.Meta = False,
    device: options.Device = None,
    dtype: options.Dtype = None,
    optimizer: options.Optimizer = None,
    mesh: options.Mesh = None,
    generate: options.Generate = None,
    on: options.On = None,
    repeats: Annotated[int, typer.Option("--repeats", help="Timed runs of each point.", min=1)] = 5,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help=f"Write it too: {', '.join(SUFFIXES)}; .svg, .png and .pdf are plots.",
        ),
    ] = None,
    progress: options.Progress = False,
) -> None:
    """Count or time a model at every combination of sizes, and show how its cost grows."""
    parsed = parse_axes(axes)
    for path in output or ():
        check_file(path, parsed)
    check_names(device, optimizer, meta=meta)
    asked: dict[str, Any] = {"train": train, "dtype": dtype, "optimizer": optimizer, "generate": generate, "on": on}
    asked["mesh"] = None if mesh is None else parse_mesh(mesh)
    check_sweep(parsed, **asked)
    first = {name: values[0] for name, values in parsed.items()}
    specs = sized_inputs(input or [], first)
    address = changed_address(find_target(target, complete=False), first)
    check_target(address, specs)
    meta = meta or mesh is not None
    timing: dict[str, Any] = {} if meta else {"repeats": repeats}
    with Progress(asked=progress) as say:
        say(f"{target}: starting")
        from ..engine.sweeping import sweep as run

        told = by_points(say, timed=not meta)
        result = run(target, parsed, meta=meta, progress=told, inputs=input or [], device=device, **asked, **timing)
    save_and_print(str(result), output or (), result.save)
