"""What every finding looks at: a profile, the ceilings of a device, and the time of every op, measured or at its limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ...results.caveats import Caveat
from ...results.ceilings import Ceilings
from ...results.costs import OpRow
from ...results.node import Node
from ...results.profile import Profile
from ...results.records import BACKWARD, FORWARD, OPTIMIZER, PHASES, RECOMPUTE
from ..limits.roofline import ceilings_for, device_seconds, profile_limit, row_roof, waits_for_host
from ..limits.utilization import step_seconds
from .finding import Finding

Placed = tuple[Node, OpRow]
WORTH = 0.02
"""Share of a step from which on a win is worth a sentence."""


@dataclass(frozen=True)
class Scene:
    """A profile on a device: its own, or a named one, whose times are then limits."""

    profile: Profile
    device: str | None = None

    @cached_property
    def ceilings(self) -> Ceilings | None:
        """What the limits are taken against; None if the device is not known."""
        return ceilings_for(self.profile, self.device)

    @cached_property
    def measured(self) -> bool:
        """Whether times are measured; on a named device, or if nothing ran, they are limits."""
        return self.device is None and step_seconds(self.profile) is not None

    @cached_property
    def step(self) -> float | None:
        """Seconds of a step: measured, else its limit."""
        return step_seconds(self.profile) if self.measured else profile_limit(self.profile, self.device)

    @cached_property
    def busy(self) -> float | None:
        """Seconds in which the device works, of one step."""
        return (device_seconds(self.profile) or self.step) if self.measured else self.step

    @cached_property
    def launch_bound(self) -> bool:
        """Whether the device waits for the host for most of the time: then shorter kernels win nothing."""
        return self.measured and waits_for_host(self.profile.root, self.profile)

    def rows(self, phases: Iterable[str] = PHASES) -> Iterator[Placed]:
        """Every op row with its module."""
        wanted = tuple(phases)
        return (place for place in self._placed if place[1].phase in wanted)

    @cached_property
    def _placed(self) -> list[Placed]:
        return [(node, row) for node in self.profile.walk() for row in node.ops]

    @cached_property
    def _limits(self) -> dict[int, float]:
        """Limits by the id of the row, each worked out once; the profile holds its rows, so ids stay theirs."""
        return {id(row): self._limit(row) for _, row in self._placed}

    def limit(self, row: OpRow) -> float:
        """The least seconds of an op row in one step; 0 if its peak is not known."""
        found = self._limits.get(id(row))
        return self._limit(row) if found is None else found

    def _limit(self, row: OpRow) -> float:
        roof = row_roof(row, self.ceilings, self.profile.environment.dtype) if self.ceilings else None
        return roof.limit if roof else 0.0

    def seconds(self, row: OpRow) -> float:
        """Measured seconds of an op row in one step, else its limit."""
        if self.measured and row.seconds is not None:
            return row.seconds * self._paces.get(row.phase, 1.0)
        return self.limit(row)

    @cached_property
    def _paces(self) -> dict[str, float]:
        """What a traced time counts by phase: on a CPU tracing slows small ops, and those of a phase take no longer than it does."""
        if self.profile.environment.device not in ("", "cpu"):
            return {}
        timing = self.profile.timing
        found: dict[str, float] = {}
        for phases, stat in (
            ((FORWARD,), timing.forward),
            ((BACKWARD, RECOMPUTE), timing.backward),
            ((OPTIMIZER,), timing.optimizer),
        ):
            traced = sum(row.seconds or 0.0 for _, row in self.rows(phases))
            if stat is not None and traced > stat.median:
                found |= dict.fromkeys(phases, stat.median / traced)
        return found

    def worth(self, seconds: float) -> bool:
        """Whether a win is large enough to be spoken of."""
        return bool(self.step) and seconds >= WORTH * (self.step or 0)

    def weighed(self, finding: Finding) -> Finding:
        """A finding with its share of the step, never more than all of it: traced times of ops may add up to more."""
        if not self.step:
            return finding
        share = min(1.0, finding.share or finding.seconds / self.step)
        return replace(finding, share=share, seconds=self.step if share == 1 else finding.seconds)

    def doubted(self, *kinds: type[Caveat]) -> bool:
        """Whether the profile has a caveat of one of these kinds."""
        return any(isinstance(caveat, kinds) for caveat in self.profile.caveats)

    @property
    def basis(self) -> str:
        """How times were had."""
        return "measured" if self.measured else "at the limit"


def paths(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The paths of modules, each once, in order."""
    return tuple(dict.fromkeys(node.path for node in nodes))
