"""The calls of a model between start and stop in the user's own loop: timed as they run, counted on a meta twin.

A step cannot be repeated, and a counter would slow it. So the real call runs with light marks only, and a meta twin of
the model as it was at entry is counted: after the call on a CPU, before it elsewhere, with that time left out. A short
call on a CPU is also made by a copy, without marks. A model that cannot have a twin is counted while it runs, and its
latency is marked as too high.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
from torch import nn

from ..capture.count.tape import Tape
from ..capture.hooks import internals
from ..capture.hooks.parallel import is_running
from ..capture.hooks.patches import Call, compiling, module_calls, unpatched, unpatched_if_alone
from ..capture.model.model_run import ModelRun
from ..capture.model.sites import Site
from ..capture.model.wrappers import compiled_from
from ..capture.time.clock import HOSTS, Clock, clock_for, pausing
from ..capture.time.loop_marks import model_call
from ..capture.time.module_marks import Timer
from ..capture.twin.known_values import was_written
from ..capture.twin.meta_copy import NoTwinError
from ..engine.counting import apart, count_on_twin, make_counter
from ..engine.run_profile import Ignored, Options
from ..errors import InputError, StateError
from ..results.caveats import Caveat, CompiledWhole, Note, NotSplit
from ..results.profile import Profile
from .call_at_entry import CallAtEntry
from .copied_call import copied_call
from .quiet import quiet
from .seen_calls import SeenCalls, calls_by_module


class OneShot:
    """Counts and times every call of a model between `start` and `stop`; a call that raises is the last one."""

    def __init__(self, model: nn.Module, clock: Clock | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
        self.model = ModelRun(model).plain_model
        self.running = False
        self.ignored: Ignored | None = None
        self._given = ModelRun(model)
        self._given_clock = clock
        self._clock = clock or Clock()
        self._stack = ExitStack()
        self._seen: SeenCalls | None = None
        self._made: Profile | None = None
        self._thread = 0
        self._entered = False
        self._compiled = False

    def start(self, ignored: Ignored | None = None) -> None:
        """Start watching; the calls seen before are forgotten."""
        self.stop()
        self.ignored = ignored
        device = self._given.device
        self._clock = self._given_clock or clock_for(device)
        whole: list[Caveat] = []
        # On a device the host's marks would say when work is handed over, and slow a model that is bound by the host.
        if device.type not in HOSTS:
            whole.append(NotSplit())
        self._seen, self._made = SeenCalls(Timer(self.model, self._clock.now), whole), None
        self.resume()

    def resume(self) -> None:
        """Go on after a stop, unless a call raised; the calls seen before are kept."""
        seen = self._seen
        if seen is None or self.running or seen.raised:
            return
        self._thread = threading.get_ident()
        if seen.whole:
            self._stack.enter_context(module_calls(self._watch, bare=True))
        else:
            seen.timer.at_entry = self._at_entry
            self._stack.enter_context(seen.timer.running())
        self.running = True

    def stop(self) -> None:
        """Stop watching; the calls seen so far are kept."""
        self.running = False
        self._stack.close()
        if self._seen is not None:
            self._seen.timer.at_entry = None  # it would keep the model until Python looks for cycles

    def reset(self) -> None:
        """Forget the calls seen so far; if watching, go on."""
        if self.running:
            self.start(self.ignored)
        else:
            self._seen = self._made = None

    @property
    def profile(self) -> Profile:
        """The profile of the calls seen so far."""
        if self._seen is None or self._seen.tape is None:
            raise StateError("Nothing was profiled: call start_profile(), run the model, then ask for its numbers.")
        if self._made is None:
            self._made = self._seen.profile(self.ignored)
        return self._made

    # -- while the loop runs

    def _watch(self, call: Call) -> Call:
        def entering(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if compiling() or self._entered or threading.get_ident() != self._thread:
                return call(module, *args, **kwargs)
            return self._at_entry(call, call, module, args, kwargs)

        return entering

    def _at_entry(self, plain: Call, call: Call, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """A module is called from outside the model: count and time `call`, or leave it `plain` if it is not the model's."""
        seen = self._seen
        site = seen.timer.sites.row(compiled_from(module)) if seen is not None else None
        if seen is None or site is None:
            return plain(module, *args, **kwargs)
        self._compiled = ModelRun(module).compiled
        if self._compiled:
            call = plain
            seen.whole.extend({CompiledWhole()} - {*seen.whole})
        self._entered, seen.timer.at_entry = True, None
        try:
            return self._enter(seen, site, call, (module, *args), kwargs)
        except BaseException as problem:
            seen.raised = type(problem).__name__
            self.stop()
            raise
        finally:
            self._entered, seen.timer.at_entry = False, self._at_entry if self.running else None

    def _enter(self, seen: SeenCalls, site: Site, call: Call, given: tuple[Any, ...], kwargs: Any) -> Any:
        self._made = None
        run = ModelRun(self.model, given[1:], kwargs, part=site.path)
        seen.calls.append(model_call(site, run))
        seen.first = seen.first or _stand_in(run)
        if not seen.why_live and self._counts_afterwards:
            with pausing():
                entry = _at_entry(seen, run)
            if entry is not None:
                return self._run_then_count(seen, entry, call, given, kwargs)
        if not seen.why_live:
            return self._count_then_run(seen, run, call, given, kwargs)
        return self._count_live(seen, run, call, given, kwargs)

    @property
    def _counts_afterwards(self) -> bool:
        """True if a pause before the call would be seen in its time, and the call may be made again to count it.

        On a device a rehearsal follows the pause. With other processes a second call could wait for them forever.
        """
        return self._given.device.type in HOSTS and not self._compiled and not is_running()

    def _run_then_count(self, seen: SeenCalls, entry: CallAtEntry, call: Call, given: Any, kwargs: Any) -> Any:
        before = seen.seconds
        try:
            output = self._time(seen, call, given, kwargs)
        except BaseException:
            with pausing(), quiet():
                _count_raised(seen, entry)
            raise
        seconds = seen.seconds - before
        with pausing(), quiet():
            calls = _count(seen, entry)
            if seen.repeats(seconds) and calls is not None:
                self._make_again(seen, entry, seconds, calls)
        return output

    def _make_again(self, seen: SeenCalls, entry: CallAtEntry, seconds: float, calls: Counter[str]) -> None:
        with apart():
            copied = entry.copied()
            if copied is not None:
                seen.made_again(seconds, copied.plain_seconds(self._clock, calls))

    def _count_then_run(self, seen: SeenCalls, run: ModelRun, call: Call, given: Any, kwargs: Any) -> Any:
        with pausing(), quiet():
            # made before the count, so that nothing but the rehearsal comes between the count and the call
            copied = copied_call(run) if self._rehearses else None
            try:
                counted = count_on_twin(run)  # a new twin for every call: modes and buffers may have changed
            except NoTwinError as problem:
                seen.why_live = str(problem)
            else:
                seen.take(counted.recording.tape)
        if seen.why_live:
            return self._count_live(seen, run, call, given, kwargs)
        # Unpatching is outside the time of the call: it clears the attribute caches of every module class.
        with self._unpatched(seen):
            if copied is not None and not any(map(was_written, counted.parameters)):  # the copy shares them
                with pausing(), quiet(), apart():
                    copied.rehearse(self._clock)
            return self._time(seen, call, given, kwargs)

    def _unpatched(self, seen: SeenCalls) -> AbstractContextManager[None]:
        """Without our wrapper, around a call that is timed as a whole."""
        if self._compiled:
            return unpatched()
        return unpatched_if_alone() if seen.whole else nullcontext()

    @property
    def _rehearses(self) -> bool:
        """True if the pause of the count would be seen: on a device a small step is bound by the host."""
        return not (self._compiled or self._given.device.type in HOSTS)

    def _count_live(self, seen: SeenCalls, run: ModelRun, call: Call, given: Any, kwargs: Any) -> Any:
        """Make the call under the counter; what came before an exception is kept."""
        module, *args = given
        counter = make_counter(self.model, Options(run=run))
        try:
            with counter:
                return self._time(seen, counter.watch(call), (compiled_from(module), *args), kwargs)
        finally:
            seen.take(counter.tape)

    def _time(self, seen: SeenCalls, call: Call, given: Any, kwargs: Any) -> Any:
        self._clock.wait()
        begin = self._clock.now()
        try:
            return call(*given, **kwargs)
        finally:
            self._clock.wait()
            seen.seconds += self._clock.now() - begin


def _at_entry(seen: SeenCalls, run: ModelRun) -> CallAtEntry | None:
    """What the count will need; None if the call has to be counted while it runs."""
    try:
        return CallAtEntry(run)
    except NoTwinError as problem:
        seen.why_live = str(problem)
    except Exception as problem:
        seen.why_live = f"its inputs or buffers have no twin ({type(problem).__name__}: {problem})"
    return None


def _count(seen: SeenCalls, entry: CallAtEntry) -> Counter[str] | None:
    """Count a call that has run: on a twin, with how often that called each module; else by making it again."""
    if not seen.why_again:
        try:
            tape = entry.count_on_twin()
        except NoTwinError as problem:
            seen.why_again = str(problem)
        else:
            calls = calls_by_module(tape)
            seen.take(tape)
            return calls
    try:
        seen.take(entry.count_again())
    except Exception as problem:
        seen.take(_not_counted(f"It has no meta twin ({seen.why_again}), and a second call raised {problem!r}"))
    return None


def _count_raised(seen: SeenCalls, entry: CallAtEntry) -> None:
    """Count a call that raised; on a twin it may raise too, and is counted up to there."""
    try:
        seen.take(entry.count_on_twin())
    except NoTwinError as problem:
        seen.cut_short = True
        seen.take(problem.tape or _not_counted(f"It has no meta twin: {problem}"))


def _not_counted(why: str) -> Tape:
    tape = Tape()
    tape.doubt(Note(f"A call of the model was not counted. {why}."))
    return tape


def _stand_in(run: ModelRun) -> ModelRun:
    """A run on the same device that keeps none of the user's memory alive."""
    with internals.without_modes():
        return ModelRun(run.model, (torch.empty(0, device=run.device),))
