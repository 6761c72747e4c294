"""The data between modules: who wrote each storage last, and who takes it in the forward."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ...results.data_flow import INPUT, OUTPUT, DataFlow
from ..model.sites import Site
from ..model.tensors import tensors_in
from .live import BUCKETS, BUFFERS, GATHERED, INPUTS, PARAMETERS, Live
from .used_storages import Use

Place = tuple[Site, int]
"""A row in one of its turns: its caller runs it once more, or it works on after a module that it called."""
MOST_TURNS = 64
"""Turns of a module that are kept apart; one with more, as in a loop over time, is one place."""
MOST_OPS = 8
"""Different ops that are kept of what a module with submodules does itself in a turn."""
HELD = {PARAMETERS, BUFFERS, GATHERED, BUCKETS}
"""What modules hold, or gather from other ranks: not data that goes from one to another."""
GIVEN, RESULT = (Site(INPUT), 0), (Site(OUTPUT), 0)


class Frame:
    """A module that is running: its turn, and how many turns each module that it called has had."""

    __slots__ = ("called", "site", "turn", "turns", "worked")

    def __init__(self, site: Site | None = None, turn: int = 0) -> None:
        self.site = site
        self.turn = turn
        self.turns: dict[Site, int] = {}
        self.worked = self.called = False
        """Whether it has run an op in this turn, and a module since then."""

    def work(self) -> int:
        """The turn of an op that runs now."""
        if self.worked and self.called:
            self.turn += 1
        self.worked, self.called = True, False
        return min(self.turn, MOST_TURNS)


class Flows:
    """Bytes that one place made and another took, over all forwards."""

    def __init__(self, live: Live) -> None:
        self.bytes: Counter[tuple[Place, Place]] = Counter()
        self._live = live
        self._frame = Frame()
        self._made: dict[int, tuple[Place, set[tuple[Place, int]]]] = {}
        """By storage: the place that wrote it last, and who took it since, from which offset on."""
        self._callers: set[Site] = set()
        """Rows that called others."""
        self._ops: defaultdict[Place, dict[str, None]] = defaultdict(dict)
        """The first ops of every place."""

    def enter(self, site: Site) -> Frame:
        """A module begins; gives the frame around it, for `leave`."""
        around = self._frame
        self._called()
        self._frame = Frame(site, around.turns.get(site, 0))
        return around

    def leave(self, around: Frame) -> None:
        """It ends."""
        ended, self._frame = self._frame, around
        if ended.site is not None and around.site is not None:  # a model that is called again from outside begins anew
            around.turns[ended.site] = ended.turn + 1

    def note(self, site: Site, op: str, use: Use) -> None:
        """An op of a module's forward ran."""
        place = site, self._frame.work() if self._frame.site is site else self._called()
        ops = self._ops[place]
        if len(ops) < MOST_OPS:
            ops[op] = None
        for tensor, storage in use.taken:
            if storage is not None:
                self._take(place, tensor, storage)
        for storage in use.left:
            if storage is not None and self._live.kind(storage) not in HELD:
                self._made[storage] = place, set()

    def _called(self) -> int:
        """The running module called another one, or its `forward` by hand; gives the turn of one called by hand."""
        if self._frame.site is not None:
            self._frame.called = True
            self._callers.add(self._frame.site)
        return 0

    def give(self, output: Any) -> None:
        """A model returns to its caller."""
        for tensor in tensors_in(output):
            storage = self._live.birth_of(tensor)
            if storage is not None:
                self._take(RESULT, tensor, storage)

    def _take(self, place: Place, tensor: torch.Tensor, storage: int) -> None:
        made = self._made.get(storage)
        if made is None:
            if self._live.kind(storage) != INPUTS:
                return
            made = self._made[storage] = GIVEN, set()
        maker, takers = made
        part = place, int(tensor.storage_offset())
        if maker == place or part in takers:
            return
        takers.add(part)
        self.bytes[maker, place] += min(tensor.nbytes, self._live.size(storage))

    def add(self, other: Flows, row_of: Callable[[Site], Site]) -> None:
        """The flows of another run, with our own rows in place of its."""
        for ends, size in other.bytes.items():
            (source, made), (target, taken) = ends
            self.bytes[(row_of(source), made), (row_of(target), taken)] += size
        for (site, turn), ops in other._ops.items():
            self._ops.setdefault((row_of(site), turn), ops)
        self._callers |= {row_of(site) for site in other._callers}

    def columns(self) -> DataFlow | None:
        """What was seen, by paths; None if nothing was. A module with very many turns is one place."""
        many = {site for ends in self.bytes for site, turn in ends if turn == MOST_TURNS}
        found: Counter[Any] = Counter()
        for ends, size in self.bytes.items():
            source, target = _named(ends, many)
            if source != target:
                found[source, target] += size
        work = {(site.path, turn): " ".join(ops) for (site, turn), ops in self._ops.items() if site in self._callers}
        return DataFlow.of(dict(found), work) if found else None


def _named(ends: Iterable[Place], many: set[Site]) -> list[tuple[str, int]]:
    return [(site.path, 0 if site in many else turn) for site, turn in ends]
