"""`flopsight ops`: every op with a formula, or what a model used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import units
from ..errors import InputError
from ..render.page import Column, Grid, Lines
from ..render.plain import grid_lines
from ..render.table import operators
from ..results.profile import Profile
from ..targets.inputs import parse_inputs
from . import options
from .completion import complete_target


def ops(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            help="A target or a saved profile; without one, every op is listed.",
            autocompletion=complete_target,
        ),
    ] = None,
    input: options.Inputs = None,
    train: options.Train = False,
    meta: options.Meta = False,
) -> None:
    """List every op that has a formula, with its file and line; with a TARGET, what a model used, by op."""
    if target is None:
        if input or train or meta:
            raise InputError("-i, --train and --meta say how to run a TARGET; name one.")
        lines = formula_lines()
    elif target.endswith(".json"):
        from ..files.store import load_profile

        lines = used_lines(load_profile(target))
    else:
        lines = used_lines(_counted(target, input or [], train=train, meta=meta))
    for line in lines:
        print(line)


def formula_lines() -> list[str]:
    """One line an op: its name, where its formula is written, what the formula says of itself."""
    from ..formulas import FORMULAS
    from ..formulas.registry import KIND_FORMULAS

    rows = [(op, _place(fn), _sentence(fn)) for op, fn in sorted(FORMULAS.items())]
    rows += [(f"any {kind} op", _place(fn), _sentence(fn)) for kind, fn in KIND_FORMULAS.items()]
    names = ("op", "formula", "what it counts")
    columns = (Column(name, cells, right=False) for name, cells in zip(names, zip(*rows, strict=True), strict=True))
    return grid_lines(Grid(tuple(columns)))


def used_lines(profile: Profile) -> list[str]:
    """One line an op and phase, the heaviest first, and what is not counted."""
    lines = []
    if any(row.seconds is not None for node in profile.walk() for row in node.ops):
        where = "of the host in a traced run" if profile.environment.device == "cpu" else "of kernels on the device"
        lines.append(f"time: seconds {where}, ops inside an op included")
    for op, missed in profile.coverage.unknown.items():
        lines.append(f"not counted: {op} in {', '.join(name or 'the root' for name in missed.modules)}: {missed.why}")
    share = units.percent(profile.coverage.share)
    lines.append(f"{share} of {units.count(profile.coverage.calls)} op calls are accounted for.")
    grids = [part for part in operators(profile, full=True) if isinstance(part, Grid)]
    return [*(line for grid in grids for line in grid_lines(grid)), *Lines(tuple(lines)).lines]


def _counted(target: str, inputs: list[str], *, train: bool, meta: bool) -> Profile:
    from ..engine.target_profile import profile_target
    from ..targets.loading import load_target

    loaded = load_target(target, parse_inputs(inputs), meta=meta)
    return profile_target(loaded, train=train, meta=meta, latency=False, memory=False)


def _place(fn: object) -> str:
    """File and line, from the package's folder on if the formula is ours."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return "?"
    path, ours = Path(code.co_filename), Path(__file__).parent.parent.parent
    shown = path.relative_to(ours) if path.is_relative_to(ours) else path
    return f"{shown}:{code.co_firstlineno}"


def _sentence(fn: object) -> str:
    return (getattr(fn, "__doc__", None) or "").strip().split("\n")[0]
