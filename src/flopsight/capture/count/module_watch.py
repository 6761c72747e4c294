"""Every module call while a counter watches: whose it is, what goes in and comes out, what is already there when it begins."""

from __future__ import annotations

from itertools import chain
from types import FrameType
from typing import Any, NamedTuple

from torch import nn

from ..hooks import internals
from ..hooks.patches import Call, compiling, inside
from ..model.sites import Site, Sites
from ..model.tensors import tensors_in
from .attribution import Attribution, Position
from .flows import Frame
from .live import INPUTS, held_by
from .parallel_work import ParallelWork
from .tape import Tape


class Visit(NamedTuple):
    """One call of a module that is running: its row, and where the thread was before it."""

    position: Position
    site: Site
    caller: Site
    direct: tuple[Site, FrameType] | None
    task: int
    bytes_before: int
    """Bytes alive when it began."""
    around: Frame | None
    """The call that it is in, for the flows of data."""


class ModuleWatch:
    """Notes the calls of a model's modules on a tape, and sets the row that ops belong to meanwhile."""

    def __init__(self, sites: Sites, tape: Tape, parallel: ParallelWork, *, has_values: bool) -> None:
        self.attribution: Attribution | None = None
        """Where threads are; None while nothing is watched."""
        self._sites = sites
        self._tape = tape
        self._parallel = parallel
        self._reads_padding = has_values and tape.live is not None

    def watch(self, plain: Call) -> Call:
        """Module calls that know their row."""
        enter, leave, outside = self._enter, self._leave, self._sites.outside

        def watched(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            visit = enter(module)
            if visit is None:
                return plain(module, *args, **kwargs)
            call = plain if visit.caller is not outside else self._from_outside(plain, module, args, kwargs)
            output = None
            try:
                output = call(module, *args, **kwargs)
            except BaseException as problem:
                self.blame(problem, visit.position)
                raise
            else:
                return output
            finally:
                leave(visit, module, args, kwargs, output)

        if self.attribution is not None:
            self.attribution.boundary = watched.__code__
        return watched

    def _enter(self, module: nn.Module) -> Visit | None:
        """Make a module's row the current one; None if the call is not to be noted."""
        attribution = self.attribution
        if attribution is None or compiling() or internals.tracing_shapes():
            return None
        position = attribution.here()
        if position is None:
            attribution.pass_by(module)
            return None
        sites = self._sites
        now = internals.graph_task()
        if now != -1 and sites.row(module) is None:
            return None  # part of a backward, not a forward that is made again
        caller, direct, task = position.site, position.direct, position.task
        site = sites.single_rows.get(id(module)) or sites.find(module, direct[0] if direct else caller)
        position.site, position.direct, position.task = site, None, now
        position.mark(site)
        if self._parallel.away:
            self._parallel.note_module(site)
        live, data = self._tape.live, self._tape.data
        around = data.flows.enter(site) if data is not None else None
        return Visit(position, site, caller, direct, task, live.current if live is not None else 0, around)

    def _leave(self, visit: Visit, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Note the call, and make the caller's row the current one again."""
        position, site, caller, direct, task, before, around = visit
        tape = self._tape
        if tape.data is not None and around is not None:
            tape.data.flows.leave(around)
            if caller is self._sites.outside and position.task == -1:
                tape.data.flows.give(output)
        if position.task == -1:
            position.after_backward = False
            # The work of a module that is not the model's is its caller's work, but not another call of it.
            if site is not caller or self._sites.row(module) is not None:
                tape.note_call(site, args, kwargs, output)
                if tape.live is not None:
                    tape.live.grown[site] += tape.live.current - before
        if self._parallel.away:
            self._parallel.end_module(site)
        position.site, position.direct = caller, direct
        if caller is not self._sites.outside:
            position.task = task
        elif tape.saved is not None:
            tape.saved.settle()
        position.mark(caller)

    def _from_outside(self, plain: Call, module: nn.Module, args: Any, kwargs: Any) -> Call:
        """Note a call from outside the model; returns it with our saved-tensor hooks on top if the loop's hooks cover ours."""
        self._given(args, kwargs)
        with internals.without_modes():
            if self._reads_padding:
                self._tape.note_padding(module, args, kwargs)
            if self._parallel.watching:
                self._tape.note_root_call(module, args, kwargs)
        saved = self._tape.saved
        if saved is None or not saved.covered or not internals.saved_hooks_allowed():
            return plain
        return inside(saved.on_top)(plain)

    def meet(self, root: nn.Module) -> None:
        """Leave out the parameters and buffers of a model that was just found: the run does not allocate them."""
        there = held_by(root.modules())
        if self._tape.saved is not None:
            self._tape.saved.leave_out(chain(*there.values()))
        if self._tape.live is not None:
            self._tape.live.leave_out(there)
        if self._parallel.running:
            self._parallel.buckets.meet(root)

    def _given(self, args: Any, kwargs: Any) -> None:
        """Leave out the inputs of a model, unless something trainable made them: they are not its activations."""
        tensors = [tensor for tensor in tensors_in((args, kwargs)) if tensor.grad_fn is None]
        if self._tape.saved is not None:
            self._tape.saved.leave_out(tensors)
        if self._tape.live is not None:
            self._tape.live.leave_out({INPUTS: tensors})

    def blame(self, problem: BaseException, position: Position) -> None:
        """Note where an exception was raised."""
        if self.attribution is not None:
            self._tape.note_raised(problem, *self.attribution.where(position))
