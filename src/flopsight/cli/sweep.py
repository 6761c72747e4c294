"""`flopsight sweep`: one model at many sizes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..distributed.mesh_axes import parse_mesh
from ..errors import InputError
from ..progress import Progress, by_points
from ..render.sweep_page import SUFFIXES, check_file
from ..targets.axes import EXAMPLE, changed_address, check_sweep, parse_axes, sized_inputs
from ..targets.early_checks import check_device_name, check_optimizer_name, check_target, find_target
from . import options

if TYPE_CHECKING:
    from ..results.sweep import Sweep


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
    if meta and device:
        raise InputError("--meta runs on no device; leave out --device or --meta.")
    if device:
        check_device_name(device)
    if optimizer:
        check_optimizer_name(optimizer)
    asked: dict[str, Any] = {"train": train, "dtype": dtype, "optimizer": optimizer, "generate": generate, "on": on}
    asked["mesh"] = parse_mesh(mesh) if mesh else None
    check_sweep(parsed, **asked)
    first = {name: values[0] for name, values in parsed.items()}
    specs = sized_inputs(input or [], first)
    address = changed_address(find_target(target, complete=False), first)
    check_target(address, specs)
    meta = meta or mesh is not None
    result = _swept(target, parsed, progress, meta=meta, repeats=repeats, inputs=input or [], device=device, **asked)
    saved = [result.save(path) for path in output or ()]
    print(result, flush=True)
    for path in saved:
        print(f"Saved {path}", file=sys.stderr)


def _swept(
    target: str, axes: dict[str, tuple[Any, ...]], shown: bool, *, meta: bool, repeats: int, **options: Any
) -> Sweep:
    with Progress(asked=shown) as say:
        say(f"{target}: starting")
        from ..engine.sweeping import sweep as run

        timing: dict[str, Any] = {} if meta else {"repeats": repeats}

        return run(target, axes, meta=meta, progress=by_points(say, timed=not meta), **options, **timing)
