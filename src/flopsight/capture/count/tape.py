"""What a counter saw, in the order of rows: op calls, module calls, saved bytes, memory, doubts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from ...results.caveats import Caveat
from ...results.records import ModuleCall, OpRecord, Padding, above
from ..hooks import internals
from ..model.padding import padding_of
from ..model.sites import Site
from ..model.tensors import meta, metas, tensor_metas, with_tensors, without_data
from .flows import Flows
from .live import Live
from .opinfo import OpInfo
from .repeated_work import Repeats
from .saved import Saved

MOST_ROOT_CALLS = 64
"""Calls with different shapes that are kept."""


@dataclass
class RootCall:
    """Equal calls of a model: its inputs without their data."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    times: int = 0


class DataNotes(NamedTuple):
    """What is known of the data in storages, if memory is followed."""

    repeats: Repeats
    flows: Flows


class Tape:
    """The notes of one run. Tapes of the same model, or of a twin of it, add up: rows with the same path are one."""

    def __init__(self, saved: Saved | None = None, live: Live | None = None) -> None:
        self.saved = saved
        self.live = live
        self.data = DataNotes(Repeats(live), Flows(live)) if live is not None else None
        self.infos: dict[Any, OpInfo] = {}
        """What is known of every op that was met; each counts its own calls."""
        self.ops = OpCalls()
        self.calls: dict[Site, list[Any]] = {}
        """By row: how often it was called, and raw metas of what went in and out the first time."""
        self.direct_forwards: set[str] = set()
        """Paths of modules whose `.forward()` was called by hand."""
        self.elsewhere: set[Site] = set()
        """Rows that were called on other threads."""
        self.stages: dict[int, tuple[int, int]] = {}
        """Pipeline stages that ran here: by number, this rank's place among the ranks of the pipeline, and their number."""
        self.experts: dict[Site, dict[str, Any]] = {}
        """Rows that worked on tokens of other ranks, with the group that these came from."""
        self.root_calls: dict[Any, RootCall] = {}
        """What a model with shards was called with from outside, by the shapes of it."""
        self.padding: Padding | None = None
        """What the inputs of the models say of their padding; looked for if memory is followed."""
        self.caveats: list[Caveat] = []
        self._raised: tuple[int, Site, str] | None = None
        """An exception by its id, with row and phase: holding it would hold all that its frames hold."""

    # -- while it runs

    def note_call(self, site: Site, args: Any, kwargs: Any, output: Any) -> None:
        """A row was called once more."""
        call = self.calls.get(site)
        if call is not None:
            call[0] += 1
        else:
            with internals.untraced():
                self.calls[site] = [1, tensor_metas((args, kwargs) if kwargs else args), tensor_metas(output)]

    def note_root_call(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        """A model was called from outside every other."""
        key = id(model), tensor_metas((args, kwargs))
        if key not in self.root_calls:
            if len(self.root_calls) >= MOST_ROOT_CALLS:
                return
            given, named = with_tensors((args, kwargs), without_data)
            self.root_calls[key] = RootCall(model, given, named)
        self.root_calls[key].times += 1

    def note_padding(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        """A model was called from outside every other: read how much of its batch is padding."""
        with suppress(Exception):  # an attribute of the model may raise when it is read, and the step must not
            found = padding_of(model, args, kwargs)
            if found is not None:
                self.padding = found if self.padding is None else self.padding + found

    def note_raised(self, problem: BaseException, site: Site, phase: str) -> None:
        """An exception passes a row; the first row that it passes is where it was raised."""
        if self._raised is None or self._raised[0] != id(problem):
            self._raised = (id(problem), site, phase)

    def note_gathered(self, tensors: list[torch.Tensor], site: Site) -> None:
        """Weights were gathered from other ranks: they are not activations, whichever row saves them."""
        if self.saved is not None:
            self.saved.leave_out(tensors)
        if self.live is not None:
            self.live.gathered(tensors, site)

    def doubt(self, caveat: Caveat) -> None:
        """Keep a caveat, once."""
        if caveat not in self.caveats:
            self.caveats.append(caveat)

    # -- what was seen

    def records(self) -> Iterator[OpRecord]:
        """Every op that ran, equal calls as one record."""
        return self.ops.records()

    def module_calls(self) -> Iterator[ModuleCall]:
        """What went in and out of every module that was called."""
        for site, (calls, inputs, outputs) in self.calls.items():
            yield ModuleCall(site.path, calls, tuple(map(meta, inputs)), tuple(map(meta, outputs)))

    def views(self) -> dict[str, int]:
        """Calls of ops that do no work, by name."""
        found: Counter[str] = Counter()
        for info in self.infos.values():
            if info.kind == "view" and info.calls:
                found[info.name] += info.calls
        return dict(found)

    def saved_bytes(self) -> dict[str, int]:
        """Bytes that autograd kept for backward, by path."""
        return {} if self.saved is None else {site.path: size for site, size in self.saved.bytes.items()}

    def unread(self, models: Iterable[nn.Module]) -> set[int]:
        """The ids of parameters that no op read; none if ops ran unseen."""
        if self.data is None or self.elsewhere or any(info.unseen for info in self.infos.values()):
            return set()
        return self.data.repeats.unread(parameter for model in models for parameter in model.parameters())

    @property
    def missed(self) -> tuple[str, ...]:
        """Paths of rows that were called on other threads, and never on the one that is watched; only the topmost."""
        found = {site.path for site in self.elsewhere} - {site.path for site in self.calls}
        return tuple(sorted(path for path in found if found.isdisjoint(above(path))))

    def where_raised(self, problem: BaseException) -> tuple[str, str] | None:
        """The path and the phase in which an exception was raised, if it passed a row."""
        if self._raised is None or self._raised[0] != id(problem):
            return None
        return self._raised[1].path, self._raised[2]

    def add(self, other: Tape) -> None:
        """Take in another tape of the same model, or of a twin of it."""
        rows = {site.path: site for site in (*self.calls, *self.ops.sites())}
        infos = {(info.name, info.overload): info for info in self.infos.values()}

        def mine(site: Site) -> Site:
            return rows.setdefault(site.path, site)

        self.ops.add_all(other.ops, lambda info: infos.setdefault((info.name, info.overload), info), mine)
        for func, info in other.infos.items():
            known = self.infos.setdefault(func, info)
            if known is not info:
                known.calls += info.calls
        for site, (calls, inputs, outputs) in other.calls.items():
            self.calls.setdefault(mine(site), [0, inputs, outputs])[0] += calls
        if self.saved is not None and other.saved is not None:
            self.saved.add({mine(site): size for site, size in other.saved.bytes.items()})
        if self.data is not None and other.data is not None:
            self.data.flows.add(other.data.flows, mine)
        self.direct_forwards |= other.direct_forwards
        self.elsewhere |= other.elsewhere
        self.stages |= other.stages
        self.experts |= {mine(site): groups for site, groups in other.experts.items()}
        if other.padding is not None:
            self.padding = other.padding if self.padding is None else self.padding + other.padding
        for caveat in other.caveats:
            self.doubt(caveat)


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
