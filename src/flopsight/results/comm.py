"""Communication between ranks as values: which collective, how often, how many bytes, over which ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from .costs import known_sum, summed

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = "all_reduce", "all_gather", "reduce_scatter", "all_to_all"
BROADCAST, REDUCE, GATHER, SCATTER, SEND, RECV = "broadcast", "reduce", "gather", "scatter", "send", "recv"

WORDS = (
    ("allreduce", ALL_REDUCE),
    ("allgather", ALL_GATHER),
    ("reducescatter", REDUCE_SCATTER),
    ("alltoall", ALL_TO_ALL),
    ("sendrecv", SEND),
    ("broadcast", BROADCAST),
    ("reduce", REDUCE),
    ("send", SEND),
    ("recv", RECV),
    ("gather", GATHER),
    ("scatter", SCATTER),
)
"""Collectives by a part of their names in torch, NCCL and RCCL; the first that fits counts."""

GroupKey = frozenset[int] | str
"""Identifies the ranks of a process group."""


@dataclass(frozen=True, slots=True)
class CommRow:
    """All calls of one collective in one module and phase, over one group of ranks."""

    op: str
    """The collective: `all_reduce`, `all_gather`, ..."""
    phase: str
    """forward, backward, recompute or optimizer."""
    calls: int
    """How often it ran."""
    bytes: int
    """What this rank hands in; a receiver hands in nothing."""
    wire_bytes: int
    """What this rank sends when the ranks of the group form a ring."""
    group_size: int
    """Ranks that take part."""
    dim: str | None = None
    """The mesh dimension of the group, by the mesh's own name; None without a named mesh."""
    setup: bool = False
    """Traffic of the first steps only, outside the totals: a rebuilt bucket order, an exchange of shapes."""
    holds: tuple[str, ...] = ()
    """The parameters whose gradients travel, if several modules share one buffer."""
    seconds: float | None = None
    """Time on the device of all calls, if a trace tells it."""
    exposed: float | None = None
    """Those of `seconds` in which the device computed nothing else."""

    @property
    def key(self) -> tuple[str, str, int, str | None, bool]:
        """What rows must share to be added up."""
        return self.op, self.phase, self.group_size, self.dim, self.setup

    def __add__(self, other: CommRow) -> CommRow:
        """Both rows as one."""
        return replace(
            self,
            calls=self.calls + other.calls,
            bytes=self.bytes + other.bytes,
            wire_bytes=self.wire_bytes + other.wire_bytes,
            holds=tuple(dict.fromkeys((*self.holds, *other.holds))),
            seconds=known_sum((self.seconds, other.seconds)),
            exposed=known_sum((self.exposed, other.exposed)),
        )


def collective_named(name: str) -> str | None:
    """The collective that an op, a kernel or a mark of torch's is named after; None if none of the words is in its name."""
    plain = name.lower().replace("_", "")
    return next((op for word, op in WORDS if word in plain), None)


def group_key(group: Any, ranks_of: Callable[[Any], Iterable[int]]) -> GroupKey:
    """The ranks of a process group, in no order; a group of one rank is identified by its name.

    Libraries make a group for each block of a model, or reuse one: groups over the same ranks are one and the same.
    Only dimensions of one rank are kept apart: a mesh may have several of them.
    """
    try:
        ranks = frozenset(ranks_of(group))
    except KeyError:  # the script has destroyed the group
        ranks = frozenset()
    return ranks if len(ranks) > 1 else str(group.group_name)


def wire_bytes(op: str, handed_in: int, group_size: int) -> int:
    """What one rank of a ring sends, for what it hands in.

    An all-reduce passes its tensor around almost twice; an all-gather passes every shard to all but one rank, and a
    rank hands in one shard; a reduce-scatter and an all-to-all keep one of n parts at home.
    """
    if group_size <= 1:
        return 0
    others = group_size - 1
    if op == ALL_REDUCE:
        return 2 * handed_in * others // group_size
    if op == ALL_GATHER:
        return handed_in * others
    if op in (REDUCE_SCATTER, ALL_TO_ALL, SCATTER):
        return handed_in * others // group_size
    return handed_in


def merged(rows: Iterable[CommRow]) -> tuple[CommRow, ...]:
    """Rows of the same collective in the same phase over the same ranks, added up."""
    return tuple(summed((row.key, row) for row in rows).values())
