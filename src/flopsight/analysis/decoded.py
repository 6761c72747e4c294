"""All steps of a decoding from the few that were counted: their costs lie on lines, which add up exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from ..results.costs import Cost, OpRow, Phases
from ..results.coverage import Coverage
from ..results.generation import Generation, Step
from ..results.node import Node, rebuilt
from ..results.profile import Profile
from ..results.records import PHASES


def doubled_weights(steps: Sequence[Step]) -> list[int]:
    """Twice the number of steps that each counted one stands for, if costs between two of them lie on a line."""
    numbers = [step.number for step in steps]
    if len(numbers) == 1:
        return [2]
    before, after = [numbers[0] - 1, *numbers[:-1]], [*numbers[1:], numbers[-1] + 1]
    return [late - early for early, late in zip(before, after, strict=True)]


def all_steps(made: Generation) -> Profile:
    """The profile of the whole decoding."""
    doubled = doubled_weights(made.steps)
    profiles = [step.profile for step in made.steps]
    highest = max(profiles, key=lambda profile: profile.peak_bytes or 0)
    return replace(
        highest,
        root=_added([profile.root for profile in profiles], doubled),
        coverage=_coverage([profile.coverage for profile in profiles], doubled),
        tokens=made.batch * made.new_tokens,
    )


def _added(roots: Sequence[Node], doubled: Sequence[int]) -> Node:
    nodes = [{node.path: node for node in root.walk()} for root in roots]

    def make(node: Node, children: tuple[Node, ...]) -> Node:
        same = [(found[node.path], times) for found, times in zip(nodes, doubled, strict=True) if node.path in found]
        return replace(
            node,
            children=children,
            calls=sum(each.calls * times for each, times in same) // 2,
            own=Phases(*(_cost([(getattr(each.own, phase), times) for each, times in same]) for phase in PHASES)),
            ops=_rows([(each.ops, times) for each, times in same]),
        )

    return rebuilt(roots[-1], make)


def _rows(parts: Sequence[tuple[tuple[OpRow, ...], int]]) -> tuple[OpRow, ...]:
    """Rows of the same op in the same place of a module add up."""
    alike: defaultdict[tuple[object, ...], list[tuple[OpRow, int]]] = defaultdict(list)
    for rows, times in parts:
        met: defaultdict[tuple[object, ...], int] = defaultdict(int)
        for row in rows:
            key = (row.op, row.phase, row.status, row.dtype)
            alike[*key, met[key]].append((row, times))
            met[key] += 1
    return tuple(
        replace(
            found[-1][0],
            calls=sum(row.calls * times for row, times in found) // 2,
            cost=_cost([(row.cost, times) for row, times in found]),
            repeated=sum(row.repeated * times for row, times in found) // 2,
            repeated_bytes=sum(row.repeated_bytes * times for row, times in found) // 2,
        )
        for found in alike.values()
    )


def _cost(parts: Sequence[tuple[Cost, int]]) -> Cost:
    whole = sum((cost * times for cost, times in parts), start=Cost())
    return Cost(whole.macs // 2, whole.flops // 2, whole.bytes // 2, whole.skipped_macs // 2, whole.recompute_macs // 2)


def _coverage(parts: Sequence[Coverage], doubled: Sequence[int]) -> Coverage:
    def added(name: str) -> dict[str, int]:
        found: defaultdict[str, int] = defaultdict(int)
        for part, times in zip(parts, doubled, strict=True):
            for op, calls in getattr(part, name).items():
                found[op] += calls * times
        return {op: calls // 2 for op, calls in found.items()}

    unknown = {}
    for part in parts:
        for op, missing in part.unknown.items():
            steps = sum(times for other, times in zip(parts, doubled, strict=True) if op in other.unknown) // 2
            unknown[op] = replace(missing, calls=missing.calls * steps, bytes=missing.bytes * steps)
    known = sum(part.bytes_known * times for part, times in zip(parts, doubled, strict=True)) // 2
    return Coverage(added("counted"), added("free"), unknown, known)
