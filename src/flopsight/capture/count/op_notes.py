"""What the tape gets of an op that ran: the memory it made, the row it works for, and its record."""

from __future__ import annotations

from typing import Any

from ...results.records import BACKWARD, FORWARD, OPTIMIZER, RECOMPUTE
from ..model.sites import Site
from ..model.tensors import raw
from .attribution import Ownership, Position
from .live import GATHERED, RECOMPUTED
from .opinfo import OpInfo, values_by_name
from .parallel_work import ParallelWork
from .tape import Tape
from .used_storages import use_of

REPEATED = ("repeated", True)
"""The fact that the same op ran on the same values before, in the same forward."""


class OpNotes:
    """Writes ops on a tape, step by step."""

    def __init__(self, tape: Tape, parallel: ParallelWork) -> None:
        self.ownership: Ownership | None = None
        """Whose parameters the running optimizer works on."""
        self._tape = tape
        self._parallel = parallel

    def note_memory(self, position: Position, site: Site, phase: str, args: Any, output: Any) -> None:
        """What an op made is alive from now on; what forward saved by now is settled when another phase begins."""
        saved, live = self._tape.saved, self._tape.live
        if saved is not None and phase is not FORWARD:
            saved.settle()
        if live is not None and not position.setting_up:
            what = GATHERED if position.gathering else RECOMPUTED if phase is RECOMPUTE else None
            live.note(output, site, phase, what)
            if live.lent:
                live.use(args)

    def exchange(
        self, info: OpInfo, args: Any, kwargs: Any, output: Any, position: Position, site: Site, phase: str
    ) -> tuple[Site, str, Any]:
        """The row that a collective works for, its phase and its facts; its tensors are held until it is done."""
        placed = self._parallel.place(values_by_name(info, args, kwargs), info.name, position, site, phase)
        if self._tape.live is not None:
            self._tape.live.lend((args, output))
        return placed

    def add_forward(self, info: OpInfo, args: Any, kwargs: Any, output: Any, facts: Any, site: Site) -> None:
        """An op of the forward, with the fact that it ran before on the same values."""
        given, named, made = _raw_call(args, kwargs, output)
        live, data = self._tape.live, self._tape.data
        if live is not None and data is not None:
            use = use_of(live, info, args, kwargs, output)
            data.flows.note(site, info.name, use)
            if data.repeats.note(info, (given, named), args, kwargs, use):
                facts = (*facts, REPEATED)
        self._tape.ops.add((info, given, named, made, facts, site, FORWARD))

    def add_after_forward(
        self, info: OpInfo, args: Any, kwargs: Any, output: Any, facts: Any, site: Site, phase: str
    ) -> None:
        """An op of another phase: gradients may stand in buckets, an optimizer's work belongs to its parameters' rows."""
        if phase is BACKWARD and self._parallel.running and not info.exchanges:
            self._parallel.buckets.note(args, output)
        if self._tape.data is not None:
            self._tape.data.repeats.note_writes(info, args, kwargs)
        if self.ownership is not None and phase is OPTIMIZER:
            for row, part, named, made in self.ownership.split(args, kwargs, output):
                self._tape.ops.add((info, part, named, made, facts, row, phase))
        else:
            self._tape.ops.add((info, *_raw_call(args, kwargs, output), facts, site, phase))


def _raw_call(args: Any, kwargs: Any, output: Any) -> tuple[Any, Any, Any]:
    """What went in by position, by name, and came out, without data."""
    given = tuple([raw(value) for value in args])
    named = tuple([(name, raw(value)) for name, value in kwargs.items()]) if kwargs else ()
    return given, named, given[0] if args and output is args[0] else raw(output)
