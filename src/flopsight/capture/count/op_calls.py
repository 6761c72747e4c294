"""Op calls, kept small while they run: equal calls become one entry with a count, then one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ...results.records import OpRecord
from ..model.sites import Site
from ..model.tensors import meta, metas
from .opinfo import OpInfo

COMPACT_AT = 50_000
"""Calls that are kept before equal ones are folded into counts, so that long runs stay small."""

Entry = tuple[Any, ...]
"""(info, args, kwargs, outputs, facts, site, phase), tensors replaced by raw metas."""


class OpCalls:
    """Every op call of a run."""

    def __init__(self) -> None:
        self._fresh: list[Entry] = []
        self._folded: Counter[Entry] = Counter()

    def add(self, entry: Entry) -> None:
        """One more call."""
        self._fresh.append(entry)
        if len(self._fresh) >= COMPACT_AT:
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
        """Make equal calls one."""
        for entry in self._fresh:
            self._folded[entry] += 1
        self._fresh.clear()

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
