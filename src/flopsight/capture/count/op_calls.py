"""Op calls, kept small while they run: equal calls become one entry with a count, then one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ...records import FORWARD, OpRecord
from ..model.sites import Site
from ..model.tensors import meta, metas
from .opinfo import OpInfo

COMPACT_AT = 50_000
"""Calls that are kept before equal ones are folded into counts, so that long runs stay small."""

Entry = tuple[Any, ...]
"""(info, args, kwargs, outputs, facts, site, phase), tensors replaced by raw metas."""


Step = tuple[OpInfo, tuple[Any, ...] | None]
"""An op with its arguments, results and facts; None for a view, of which only the number counts."""
Steps = tuple[Step, ...]


class OpCalls:
    """Every op call of a run."""

    def __init__(self, infos: dict[Any, OpInfo]) -> None:
        self._infos = infos
        self._fresh: list[Entry] = []
        self._repeated: list[tuple[Steps, Site]] = []
        self._folded: Counter[Entry] = Counter()

    def add(self, entry: Entry) -> None:
        """One more call."""
        self._fresh.append(entry)
        if len(self._fresh) >= COMPACT_AT:
            self.fold()

    def repeat(self, steps: Steps, site: Site) -> None:
        """A call of a layer that ran these ops before, in this run or in another one."""
        self._repeated.append((steps, site))
        if len(self._repeated) >= COMPACT_AT:
            self.fold()

    def add_all(self, other: OpCalls, info_of: Callable[[OpInfo], OpInfo], row_of: Callable[[Site], Site]) -> None:
        """The calls of another run, with our own infos and rows in place of its."""
        other.fold()
        for (info, *call, site, phase), count in other._folded.items():
            self._folded[(info_of(info), *call, row_of(site), phase)] += count

    def sites(self) -> Iterator[Site]:
        """The rows that anything ran in."""
        self.fold()
        return (entry[5] for entry in self._folded)

    def fold(self) -> None:
        """Make equal calls one; only then do infos count the calls that were repeated."""
        for entry in self._fresh:
            self._folded[entry] += 1
        self._fresh.clear()
        for steps, site in self._repeated:
            for known, call in steps:
                info = self._infos.get(known.func)
                if info is None:
                    info = self._infos[known.func] = known.anew()
                info.calls += 1
                if call is not None:
                    self._folded[(info, *call, site, FORWARD)] += 1
        self._repeated.clear()

    def records(self) -> Iterator[OpRecord]:
        """Every op that ran, equal calls folded into one record; equal calls elsewhere share their arguments."""
        self.fold()
        seen: dict[Entry, OpRecord] = {}
        for entry, count in self._folded.items():
            *call, site, phase = entry
            record = seen.get(key := tuple(call))
            if record is None:
                record = seen[key] = _record(*call)
            yield record.at(site.path, phase, count)


def _record(info: OpInfo, args: Any, kwargs: Any, outputs: Any, facts: Any) -> OpRecord:
    bound = info.defaults | dict(zip(info.names, args, strict=False)) | dict(kwargs)
    return OpRecord(
        op=info.name,
        overload=info.overload,
        args={name: meta(bound[name]) for name in info.names if name in bound},
        outputs=tuple(metas(outputs)),
        kind=info.kind,
        facts=dict(facts),
    )
