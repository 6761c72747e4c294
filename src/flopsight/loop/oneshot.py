"""What a model does between start and stop in somebody else's loop: timed as it really runs, counted on its twin.

The step cannot be repeated, and a counter would slow it. So when the model is entered, a meta twin is counted first,
with that time left out, and then the real call runs with light marks only. A model that cannot have a twin is counted
while it runs, and its latency is marked as too high.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..analysis.times import with_times
from ..capture.count.tape import Tape
from ..capture.hooks import internals
from ..capture.hooks.patches import Call, module_calls, unpatched, unpatched_if_alone
from ..capture.model.run import Run
from ..capture.model.sites import Site
from ..capture.time.clock import HOSTS, Clock, clock_for, pausing
from ..capture.time.loop_marks import ModelCall, each_model, model_call
from ..capture.time.module_marks import Timer
from ..capture.twin.meta_copy import NoTwinError
from ..caveats import Caveat, CompiledWhole, CountedLive, Note, NotSplit
from ..counting import Ignored, Options, apart, build_profile, count_on_twin, make_counter
from ..errors import InputError, StateError
from ..tree import Profile, Stat, Timing
from .rehearsal import Rehearsal


class OneShot:
    """Counts and times every call of a model between `start` and `stop`; a call that raises is the last one."""

    def __init__(self, model: nn.Module, clock: Clock | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
        self.model = Run(model).plain_model
        self.running = False
        self.ignored: Ignored | None = None
        self._given = Run(model)
        self._given_clock = clock
        self._clock = clock or Clock()
        self._stack = ExitStack()
        self._timer: Timer | None = None
        self._raised = ""
        self._reset()

    def start(self, ignored: Ignored | None = None) -> None:
        """Begin anew; what was seen before is forgotten."""
        self.stop()
        self._reset()
        self.ignored = ignored
        device = self._given.device
        self._clock = self._given_clock or clock_for(device)
        # On a device the host's marks would say when work is handed over, and slow a model that waits for the host.
        if device.type not in HOSTS:
            self._whole.append(NotSplit())
        if self._given.compiled:
            self._whole.append(CompiledWhole())
        self._timer = Timer(self.model, self._clock.now)
        self.resume()

    def resume(self) -> None:
        """Go on after a stop; what was seen stays."""
        if self._timer is None or self.running or self._raised:
            return
        self._thread = threading.get_ident()
        if not self._whole:
            self._stack.enter_context(self._timer.running())
        self._stack.enter_context(module_calls(self._watch))
        self.running = True

    def stop(self) -> None:
        """Take everything off; what was seen stays."""
        self.running = False
        self._stack.close()

    def reset(self) -> None:
        """Forget what was seen, and go on if watching."""
        if self.running:
            self.start(self.ignored)
        else:
            self._reset()

    def _reset(self) -> None:
        self._thread = 0
        self._whole: list[Caveat] = []
        """Why only the whole is timed, and not every module."""
        self._timer = None
        self._seen: Tape | None = None
        self._why_live = ""
        self._raised = ""
        self._entered = False
        self._seconds = 0.0
        self._first: Run | None = None
        self._calls: list[ModelCall] = []
        self._made: Profile | None = None

    # -- while the loop runs

    def _watch(self, call: Call) -> Call:
        def entering(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._entered or self._timer is None or threading.get_ident() != self._thread:
                return call(module, *args, **kwargs)
            site = self._timer.sites.row(self.model if module is self._given.model else module)
            if site is None:
                return call(module, *args, **kwargs)
            self._entered = True
            try:
                return self._enter(call, site, module, args, kwargs)
            except BaseException as problem:
                self._raised = type(problem).__name__
                self.stop()
                raise
            finally:
                self._entered = False

        return entering

    def _enter(self, call: Call, site: Site, module: nn.Module, args: Any, kwargs: Any) -> Any:
        self._made = None
        run = Run(self.model, args, kwargs)
        self._calls.append(model_call(site, run))
        self._first = self._first or _stand_in(run)
        with pausing():
            # made before the count, so that nothing but the rehearsal comes between the count and the call
            rehearsal = Rehearsal(self.model, site.path, args, kwargs) if self._rehearses else None
            counted = self._count_on_twin(site.path, args, kwargs)
        # Stepping aside and back is not the call's time: every class of modules in the process hears of it.
        with self._aside() if counted is not None else nullcontext():
            if rehearsal is not None and counted is not None:
                with pausing(), apart():
                    rehearsal.run(counted, self._clock)
            self._clock.wait()
            begin = self._clock.now()
            try:
                if counted is None:
                    return self._count_live(call, module, args, kwargs)
                return call(module, *args, **kwargs)
            finally:
                self._clock.wait()
                self._seconds += self._clock.now() - begin

    def _aside(self) -> AbstractContextManager[None]:
        """Out of the way of a call that is timed as a whole."""
        if self._given.compiled:
            return unpatched()
        return unpatched_if_alone() if self._whole else nullcontext()

    @property
    def _rehearses(self) -> bool:
        """Whether the pause of the count would be seen: on a device a small step waits for the host."""
        return not (self._why_live or self._given.compiled or self._given.device.type in HOSTS)

    def _count_on_twin(self, path: str, args: Any, kwargs: Any) -> list[torch.Tensor] | None:
        """Count the call that is about to happen; None where it has to be counted while it happens.

        Gives the memory of the twin's parameters, which knows whether somebody wrote into it.
        """
        if self._why_live:
            return None
        try:
            # A new twin for every call: modes and buffers may have changed since the last one.
            counted = count_on_twin(Run(self.model, args, kwargs, part=path))
        except NoTwinError as problem:
            self._why_live = str(problem)
            return None
        self._take(counted.recording.tape)
        return counted.parameters

    def _count_live(self, call: Call, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Make the call under the counter; what came before an exception is kept."""
        counter = make_counter(self.model, Options(run=Run(self.model, args, kwargs)))
        try:
            with counter:
                return counter.watch(call)(self.model if module is self._given.model else module, *args, **kwargs)
        finally:
            self._take(counter.tape)

    def _take(self, tape: Tape) -> None:
        if self._seen is None:
            self._seen = tape
        else:
            self._seen.add(tape)

    # -- what came of it

    @property
    def profile(self) -> Profile:
        """What was seen so far."""
        if self._seen is None or self._timer is None:
            raise StateError("Nothing was profiled: call start_profile(), run the model, then ask for its numbers.")
        if self._made is None:
            # in the model's own rows: a twin has whole parameters where the model has shards
            result = build_profile(self._seen, self._timer.sites, Options(run=self._first, ignored=self.ignored))
            self._made = replace(
                result,
                root=with_times(result.root, {"": self._seconds} if self._whole else self._timer.sums()),
                timing=Timing(forward=Stat((self._seconds,))),
                batch_size=each_model(self._calls, "samples"),
                tokens=each_model(self._calls, "tokens"),
                caveats=(*result.caveats, *self._doubts()),
            )
        return self._made

    def _doubts(self) -> list[Caveat]:
        doubts: list[Caveat] = [*self._whole]
        if self._why_live:
            doubts.append(CountedLive(self._why_live))
        if self._raised:
            kept = "Costs are those up to there" if self._why_live else "Costs are those of a whole forward"
            doubts.append(
                Note(f"The model raised {self._raised}, which ended the profile. {kept}; the time ends there.")
            )
        return doubts


def _stand_in(run: Run) -> Run:
    """A run on the same device that keeps none of the user's memory alive; how large its inputs were, the calls know."""
    with internals.without_modes():
        return Run(run.model, (torch.empty(0, device=run.device),))
