"""A whole step on the report page: its rows, and the time of each, which add up to the step and cover the same phases."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ...results.costs import FREE, known_sum
from ...results.node import Node, rebuilt
from ...results.profile import Profile
from ...results.records import BACKWARD, FORWARD, OPTIMIZER, OUTSIDE, PHASES, RECOMPUTE
from ..figures import Figure
from ..limits.utilization import step_seconds

BACK, UPDATE, DATA = "<backward>", "<optimizer>", "<data>"
"""Rows beside the model's modules, named like `<outside>`."""
ROW_KINDS = {
    BACK: "of all modules, not timed one by one", OUTSIDE: "loss, glue", UPDATE: "update of the parameters",
    DATA: "wait for the next batch",
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """What one step, or one forward, is made of."""

    root: Node
    """The model; what the step does outside of every module are further children of it."""
    phases: tuple[str, ...]
    """The phases that times and limits cover."""
    seconds: Mapping[str, float]
    """Time by path, submodules included; empty if nothing was timed."""
    word: str = "step"
    """What it is: a step or a forward."""

    @property
    def nodes(self) -> list[Node]:
        """Every row, parents first."""
        return list(self.root.walk())

    @property
    def whole(self) -> float | None:
        """Seconds of all of it."""
        return self.seconds.get("")

    @cached_property
    def apart(self) -> Mapping[str, tuple[str, ...]]:
        """The phases that have a row of their own, by that row."""
        rows = {node.path for node in self.nodes}
        update = next(path for path in (UPDATE, OUTSIDE, "") if path in rows)
        wanted = {BACK: (BACKWARD, RECOMPUTE), update: (OPTIMIZER,)}
        return {
            path: tuple(one for one in phases if one in self.phases) for path, phases in wanted.items() if path in rows
        }

    @cached_property
    def by_module(self) -> tuple[str, ...]:
        """The phases that the rows of modules cover."""
        apart = {phase for phases in self.apart.values() for phase in phases}
        return tuple(phase for phase in self.phases if phase not in apart)

    @cached_property
    def timed(self) -> Node:
        """The same rows, each with its share of the step as its one time."""

        def make(node: Node, children: tuple[Node, ...]) -> Node:
            return replace(node, latency=self.seconds.get(node.path), backward_latency=None, children=children)

        return rebuilt(self.root, make)

    def own(self, node: Node) -> float | None:
        """Seconds of a row without those of its submodules: never below zero, though clocks are not exact."""
        if node.path not in self.seconds:
            return None
        below = sum(self.seconds.get(child.path, 0.0) for child in node.children)
        return max(0.0, self.seconds[node.path] - below)

    def figure(self, where: str = "") -> Figure:
        """The time as a column; `where` names the device if the limits beside it are another's."""
        label, views = (f"time on {where}", "page") if where else ("time", "page open")
        about = f"time of the {self.word}{f', measured on {where}' if where else ''}, submodules included"
        if self.word == "step":
            about += "; the optimizer's step and what runs outside of modules have rows of their own"
        read = lambda node: self.seconds.get(node.path)  # noqa: E731
        return Figure("time", label, "seconds", about, of_node=read, of_own=self.own, views=views)


def step_of(profile: Profile) -> Step:
    """The rows of a profile's step, or of its forward if no backward was timed."""
    root, timing = profile.root, profile.timing
    undivided = timing.backward if root.latency and not root.backward_latency else None
    forward_only = not profile.trained or (bool(root.latency) and not (root.backward_latency or undivided))
    whole = step_seconds(replace(profile, trained=False) if forward_only else profile)
    seconds = _measured(root, backward=not forward_only)
    inside = seconds.get("", 0.0)
    if not forward_only and whole:
        seconds |= {BACK: undivided.median} if undivided else {}
        seconds |= {UPDATE: timing.optimizer.median} if timing.optimizer else {}
        seconds |= {DATA: timing.data_wait.median} if timing.data_wait and timing.iteration else {}
    rest = (whole or 0.0) - inside - sum(seconds.get(path, 0.0) for path in (BACK, UPDATE, DATA))
    # the root's own measurement includes what ran outside of every module; the rest belongs there too
    if inside and rest > 0:
        seconds[OUTSIDE] = seconds.get(OUTSIDE, 0.0) + rest
    if whole:
        seconds[""] = whole
    rows = set(seconds)
    if profile.trained and not seconds and any(node.own.optimizer != FREE for node in root.walk()):
        rows.add(UPDATE)
    phases = (FORWARD,) if profile.trained and forward_only else PHASES
    return Step(_with_rows(root, rows), phases, seconds, "forward" if forward_only else "step")


def _measured(root: Node, *, backward: bool) -> dict[str, float]:
    """Forward, and backward if it is asked for, of every module that was timed."""
    found = (
        (node.path, known_sum((node.latency, node.backward_latency if backward else None))) for node in root.walk()
    )
    return {path: seconds for path, seconds in found if seconds is not None}


def _with_rows(root: Node, timed: Collection[str]) -> Node:
    """The model with a row for each part of the step that is not a module's."""
    rows = {path: Node(path, path, kind) for path, kind in ROW_KINDS.items() if path in timed}
    rows |= {one.path: replace(one, kind=ROW_KINDS[OUTSIDE]) for one in root.children if one.path == OUTSIDE}
    return replace(root, children=(*(one for one in root.children if one.path != OUTSIDE), *rows.values()))
