"""`flopsight ops`: every op with a formula, or what a model used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import units
from ..errors import InputError
from ..targets.inputs import parse_inputs
from . import options
from .completion import complete_target

if TYPE_CHECKING:
    from ..results.profile import Profile


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
    return _columns(rows)


def used_lines(profile: Profile) -> list[str]:
    """One line an op and phase, the heaviest first, and what is not counted."""
    from ..analysis.tables import op_totals
    from ..render.safe_names import safe_names

    profile = safe_names(profile)
    totals = op_totals(profile.root)
    head = ("op", "phase", "calls", "MACs", "FLOPs", "bytes", "time", "status")
    rows = [
        (total.op, total.phase, units.count(total.calls), units.si(total.cost.macs), units.si(total.cost.flops),
         units.size(total.cost.bytes), "" if total.seconds is None else units.seconds(total.seconds), total.status)
        for total in totals
    ]  # fmt: skip
    lines = _columns([head, *rows], right={2, 3, 4, 5, 6})
    if any(total.seconds is not None for total in totals):
        where = "of the host in a traced run" if profile.environment.device == "cpu" else "of kernels on the device"
        lines.append(f"time: seconds {where}, ops inside an op included")
    for op, missed in profile.coverage.unknown.items():
        lines.append(f"not counted: {op} in {', '.join(name or 'the root' for name in missed.modules)}: {missed.why}")
    share = units.percent(profile.coverage.share)
    return [*lines, f"{share} of {units.count(profile.coverage.calls)} op calls are accounted for."]


def _counted(target: str, inputs: list[str], *, train: bool, meta: bool) -> Profile:
    from ..targets.loading import load_target
    from .profile import profile_target

    loaded = load_target(target, parse_inputs(inputs), meta=meta)
    return profile_target(loaded, train=train, meta=meta, latency=False, memory=False)


def _place(fn: object) -> str:
    """File and line, from the package's folder on where the formula is ours."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return "?"
    path, ours = Path(code.co_filename), Path(__file__).parent.parent.parent
    shown = path.relative_to(ours) if path.is_relative_to(ours) else path
    return f"{shown}:{code.co_firstlineno}"


def _sentence(fn: object) -> str:
    return (getattr(fn, "__doc__", None) or "").strip().split("\n")[0]


def _columns(rows: Sequence[tuple[str, ...]], right: set[int] | None = None) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if place in (right or ()) else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
