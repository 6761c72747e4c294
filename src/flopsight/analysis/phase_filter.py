"""Profile -> profile: only some phases of the step, as the settings ask for. What is left out is gone, and a note says so."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ..results.caveats import BadFormula, Caveat, Note, UnknownOps, Window
from ..results.costs import FREE, OpRow
from ..results.coverage import Coverage, UnknownOp
from ..results.node import Node, rebuilt
from ..results.profile import Profile
from ..results.records import BACKWARD, FORWARD, OPTIMIZER, PHASES, RECOMPUTE
from ..results.world import Whole
from .merging import without_phases

TIMES = {
    FORWARD: ("forward", "step", "iteration", "data_wait", "busy", "idle"),
    BACKWARD: ("backward", "backward_busy"),
    OPTIMIZER: ("optimizer", "optimizer_busy"),
}
"""The times that go with a phase."""
NOTE = "Left out by the settings: {}. Parameters, calls, memory and throughput are those of the whole step."


def only(profile: Profile, phases: Collection[str]) -> Profile:
    """The profile with these phases' costs, op rows and times; parameters, calls and memory stay those of the step.

    Times of whole steps stay too, so that throughput is that of the loop; they go with the forward.
    """
    left_out = [phase for phase in PHASES if phase not in phases and _ran(profile, phase)]
    if not left_out:
        return profile
    gone = [row for node in profile.walk() for row in node.ops if row.phase in left_out]
    root = _without(profile.root, left_out)
    coverage = _coverage(profile.coverage, root, gone)
    return replace(
        profile,
        root=root,
        coverage=coverage,
        timing=replace(profile.timing, **{name: None for phase in left_out for name in TIMES.get(phase, ())}),
        caveats=(*_caveats(profile, root, coverage), Note(NOTE.format(", ".join(left_out)))),
        trained=profile.trained and BACKWARD not in left_out,
        peak_flops={} if RECOMPUTE in left_out else profile.peak_flops,  # recompute is part of the utilization
        unsharded=_whole(profile.unsharded, phases),
    )


def _whole(whole: Whole | None, phases: Collection[str]) -> Whole | None:
    nothing: dict[str, Any] = {"macs": 0, "flops": 0} if FORWARD not in phases else {}
    nothing |= {phase: FREE for phase in (BACKWARD, RECOMPUTE) if phase not in phases}
    return whole and replace(whole, **nothing)


def _ran(profile: Profile, phase: str) -> bool:
    """Whether there is anything of a phase to leave out."""
    return (
        getattr(profile.root.total, phase) != FREE
        or getattr(profile.timing, phase, None) is not None
        or any(row.phase == phase for node in profile.walk() for row in node.ops)
    )


def _without(root: Node, left_out: Sequence[str]) -> Node:
    """The tree without the costs, op rows and times of some phases."""
    free = dict.fromkeys(left_out, FREE)

    def make(node: Node, children: tuple[Node, ...]) -> Node:
        left: dict[str, Any] = {
            name: tuple(row for row in getattr(node, name) if row.phase not in left_out)
            for name in ("ops", "comm", "setup_comm")
        }
        return replace(without_phases(node, left_out, children), own=replace(node.own, **free), **left)

    return rebuilt(root, make)


def _coverage(before: Coverage, root: Node, gone: Sequence[OpRow]) -> Coverage:
    """The ledger without the calls that are gone."""
    calls = {"counted": dict(before.counted), "free": dict(before.free)}
    unknown = dict(before.unknown)
    for row in gone:
        if row.status == "unknown" and row.op in unknown:
            miss = unknown[row.op]
            unknown[row.op] = replace(miss, calls=miss.calls - row.calls, bytes=miss.bytes - row.cost.bytes)
        elif row.status in calls and row.op in calls[row.status]:
            calls[row.status][row.op] -= row.calls
    return Coverage(
        counted={op: number for op, number in calls["counted"].items() if number},
        free={op: number for op, number in calls["free"].items() if number},
        unknown={op: _placed(miss, op, root) for op, miss in unknown.items() if miss.calls},
        bytes_known=before.bytes_known - sum(row.cost.bytes for row in gone if row.status != "unknown"),
    )


def _placed(miss: UnknownOp, op: str, root: Node) -> UnknownOp:
    """An unknown op with those of its modules in which it is still seen."""
    seen = {node.path for node in root.walk() for row in node.ops if row.op == op and row.status == "unknown"}
    return replace(miss, modules=tuple(path for path in miss.modules if path in seen) or miss.modules)


def _caveats(profile: Profile, root: Node, coverage: Coverage) -> list[Caveat]:
    """The doubts that are left, about what is left."""
    kept: list[Caveat] = []
    for caveat in profile.caveats:
        match caveat:
            case UnknownOps(names=names):
                still = tuple(op for op in names if op in coverage.unknown)
                kept += [UnknownOps(still, sum(coverage.unknown[op].calls for op in still))] if still else []
            case BadFormula(op=op) if op not in coverage.unknown:
                pass
            case Window(first=first, last=last, flops=int()):
                kept.append(replace(caveat, flops=root.total.total.flops * (last - first + 1)))
            case _:
                kept.append(caveat)
    return kept
