"""A job: the profiles of all ranks that ran one model together, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce
from itertools import pairwise
from math import prod
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, check_known
from .caveats import Caveat, Note
from .costs import Cost
from .data_flow import chained
from .in_notebooks import Shown
from .node import MOST_LETTERS, Node, outermost, rebuilt
from .profile import Profile
from .read_only import FixedTables, ReadOnly
from .world import Whole

if TYPE_CHECKING:
    from ..render.pictures import Pictures

SHOWN = 5
"""Names in a list before it is cut short."""


OTHER_NAMES = {"memory": "peak_bytes", "activations": "activation_bytes", "comm": "comm_bytes"}
"""Short names of figures that `values` and `imbalance` take too."""


@dataclass(frozen=True)
class Job(Shown, FixedTables):
    """Every rank that arrived, and the names of those that did not."""

    ranks: Mapping[int, Profile]
    """The profile of each rank that was found, by its number."""
    size: int = 1
    """Ranks of the job, arrived or not."""
    problems: Mapping[int, str] = field(default_factory=dict)
    """Why a rank is missing, if it said so."""
    left_out: tuple[str, ...] = ()
    """Files beside those of the ranks that could not be read, a sentence each."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks without a profile."""
        return tuple(rank for rank in range(self.size) if rank not in self.ranks)

    @cached_property
    def stages(self) -> Mapping[int, tuple[Profile, ...]]:
        """The ranks by pipeline stage, each stage's lowest rank first."""
        found: dict[int, list[Profile]] = {}
        for _, profile in sorted(self.ranks.items()):
            found.setdefault(profile.world.stage, []).append(profile)
        return ReadOnly((stage, tuple(found[stage])) for stage in sorted(found))

    @cached_property
    def whole(self) -> Whole | None:
        """One replica at one rank's batch: stages summed, experts united, data-parallel ranks never.

        None if a stage or a rank with experts of its own is missing, or if a rank could not count its part.
        """
        if not self.ranks or len(self.stages) < max(profile.world.pipeline for profile in self.ranks.values()):
            return None
        replicas = [_replica(profiles) for profiles in self.stages.values()]
        known = [replica for replica in replicas if replica is not None]
        if len(known) < len(replicas):
            return None
        return reduce(add, known)

    @property
    def slowest(self) -> int | None:
        """The rank with the longest step; None if no rank was timed."""
        times = self.values("time")
        return max(times, key=lambda rank: times[rank]) if times else None

    def values(self, figure: str) -> dict[int, float]:
        """A `figure` of every rank that knows it: "flops", "step_flops", "time", "memory", "comm" or "mfu"."""
        from ..analysis.figures import BOOK

        known = {key: one for key, one in BOOK.items() if one.of_profile is not None}
        known |= {name: known[key] for name, key in OTHER_NAMES.items()}
        check_known(figure, known, f"Ranks have no figure {figure!r}", "Figures:")
        found = {rank: known[figure].read(profile) for rank, profile in sorted(self.ranks.items())}
        return {rank: value for rank, value in found.items() if value is not None}

    def imbalance(self, figure: str = "flops") -> float | None:
        """How much more of `figure`, a name as in `values`, the largest rank has than the mean: max / mean - 1; None if no rank knows it."""
        values = list(self.values(figure).values())
        if not values:
            return None
        mean = sum(values) / len(values)
        return max(values) / mean - 1 if mean else 0.0

    @cached_property
    def expert_load(self) -> Mapping[tuple[int, str], int]:
        """Tokens that each expert got, by rank and module."""
        return ReadOnly(
            ((rank, node.path), prod(node.input_shapes[0][:-1]) * node.calls if node.input_shapes else 0)
            for rank, profile in sorted(self.ranks.items())
            if profile.world.expert > 1
            for node in outermost(profile.root, _is_expert)
        )

    @cached_property
    def model(self) -> Profile:
        """One model out of the ranks: the lowest rank's, or every pipeline stage beside the others."""
        if not self.ranks:
            raise InputError(f"No rank of {self.size} arrived, so there is no model to show.")
        first = self.ranks[min(self.ranks)]
        parts = [profiles[0] for profiles in self.stages.values()]
        caveats = tuple(dict.fromkeys((*self.caveats, *(caveat for part in parts for caveat in part.caveats))))
        if len(parts) == 1:
            part = first.part if self.whole is None else ""
            return replace(first, caveats=caveats, unsharded=self.whole or first.unsharded, part=part)
        return replace(
            first,
            root=_joined(parts),
            caveats=caveats,
            peak_bytes=None,
            at_peak={},
            memory_curve=None,
            data_flow=chained({_stage(index): part.data_flow for index, part in enumerate(parts)}),
            unsharded=self.whole,
            part="" if self.whole else "not every stage of the pipeline arrived",
        )

    @cached_property
    def caveats(self) -> tuple[Caveat, ...]:
        """What is missing, and where ranks disagree though they should not."""
        found: list[Caveat] = []
        if self.missing:
            names = _listed([str(rank) for rank in self.missing])
            found.append(Note(f"{len(self.missing)} of {self.size} ranks are missing: {names}."))
            found += [Note(f"Rank {rank}: {why}") for rank, why in sorted(self.problems.items())]
        found += [Note(f"{why} It is left out.") for why in self.left_out]
        for profiles in self.stages.values():
            found += [Note(text) for text in _differences(profiles)]
        return tuple(found)

    def __getitem__(self, path: str) -> Node:
        """The node with that qualified name, in the model that the ranks make up."""
        return self.model[path]

    @property
    def plot(self) -> Pictures:
        """Figures of the model that the ranks make up, as of a profile."""
        from ..render.pictures import Pictures

        return Pictures(self.model)

    def to_html(self, path: str | Path) -> Path:
        """Write a report page to `path`: the ranks side by side, and the model that they make up."""
        from ..render.html import write

        return write(self, Path(path))

    @property
    def one_line(self) -> str:
        """How many ranks arrived, and what they ran."""
        what = next(iter(self.ranks.values())).root.kind if self.ranks else "nothing"
        return f"{len(self.ranks)} of {self.size} ranks, {what}"

    def __repr__(self) -> str:
        return f"<Job of {self.one_line}>"[:MOST_LETTERS]


def _replica(profiles: tuple[Profile, ...]) -> Whole | None:
    """What the ranks of one stage make up: any of them knows it, unless each has experts of its own."""
    first = profiles[0]
    divided = first.world.model_parallel > first.world.pipeline
    if first.unsharded is None and divided:
        return None
    ways = first.world.expert
    if ways == 1:
        return None if first.part and first.world.pipeline == 1 else first.own_whole
    holders: dict[int, Profile] = {}
    for profile in profiles:
        holders.setdefault(profile.world.expert_rank, profile)
    if len(holders) < ways:
        return None
    parts = [profile.own_whole for _, profile in sorted(holders.items())]
    shared = _elements(first.root, expert=False)
    experts = sum(_elements(profile.root, expert=True) for profile in holders.values())
    return replace(_mean(parts), params=shared + experts, active_params=None)


def _elements(root: Node, *, expert: bool) -> int:
    return sum(parameter.elements for parameter in root.distinct_parameters if parameter.expert == expert)


def _mean(parts: list[Whole]) -> Whole:
    """Ranks that exchange tokens do together what belongs to all their batches: one batch is the mean."""
    total, ways = reduce(add, parts), len(parts)

    def share(value: Any) -> Any:
        if isinstance(value, Cost):
            return Cost(*(round(getattr(value, one.name) / ways) for one in fields(Cost)))
        return round(value / ways)

    names = ("macs", "flops", "backward", "recompute", "activation_bytes")
    return Whole(total.params, **{name: share(getattr(total, name)) for name in names})


def _joined(parts: list[Profile]) -> Node:
    """The stages of a pipeline below one root; parameters of different stages are different tensors."""
    children, key = [], 0
    for index, part in enumerate(parts):
        children.append(_moved(part.root, _stage(index), key))
        key += 1 + max((p.key for node in part.walk() for p in node.parameters), default=0)
    return Node("", "", "Pipeline", children=tuple(children), calls=1)


def _stage(index: int) -> str:
    return f"stage{index}"


def _moved(root: Node, prefix: str, first_key: int) -> Node:
    def make(node: Node, children: tuple[Node, ...]) -> Node:
        return replace(
            node,
            path=f"{prefix}.{node.path}" if node.path else prefix,
            name=node.name if node.path else prefix,
            parameters=tuple(replace(p, key=p.key + first_key) for p in node.parameters),
            children=children,
        )

    return rebuilt(root, make)


def _differences(profiles: tuple[Profile, ...]) -> list[str]:
    """One sentence if two ranks with the same part of the model ran different modules."""
    for one, other in pairwise(profiles):
        if one.root is other.root:
            continue
        names, others = set(one.plain_paths), set(other.plain_paths)
        if names != others:
            only = sorted(names - others) or sorted(others - names)
            holder = one if names - others else other
            pair, verb = f"{one.world.rank} and {other.world.rank}", "is" if len(only) == 1 else "are"
            return [f"Ranks {pair} have different modules: {_listed(only)} {verb} only in rank {holder.world.rank}."]
    return []


def _is_expert(node: Node) -> bool:
    """Whether a module ran and all its parameters are of this rank's own experts."""
    return bool(node.calls and node.distinct_parameters) and all(p.expert for p in node.distinct_parameters)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
