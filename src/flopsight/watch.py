"""What a model does between start and stop in somebody else's loop: timed as it really runs, counted on its twin.

The step cannot be repeated, and a counter would slow it. So when the model is entered, a meta twin is counted first,
with that time left out, and then the real call runs with light marks only. A model that cannot have a twin is counted
while it runs, and its latency is marked as too high.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from .capture import internals
from .capture.clock import Clock, clock_for, pausing
from .capture.dispatch import Counter
from .capture.inputs import Run
from .capture.scope import Call, module_calls
from .capture.state import kept_rng
from .capture.timing import Timer
from .capture.twin import NoTwinError, make_twin, on_meta
from .caveats import Caveat, CountedLive, NotSplit, TwinWithoutAutocast
from .errors import InputError, StateError
from .session import Ignored, Options, finished, make_counter
from .tree import Profile, Stat, Timing


class Watch:
    """Counts and times every call of a model between `start` and `stop`."""

    def __init__(self, model: nn.Module, clock: Clock | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
        self.model = Run(model).plain_model
        self.running = False
        self._clock = clock
        self._stack = ExitStack()
        self._ignored: Ignored | None = None
        self._timer: Timer | None = None
        self._reset()

    def start(self, ignored: Ignored | None = None) -> None:
        """Begin anew; what was seen before is forgotten."""
        self.stop()
        self._reset()
        self._ignored = ignored
        self._thread = threading.get_ident()
        device = Run(self.model).device
        self._clock = self._clock or clock_for(device)
        # On a device the host's marks would say when work is handed over, and slow a model that waits for the host.
        self._by_module = device.type in ("cpu", "meta")
        self._timer = timer = Timer(self.model, self._clock.now)
        if self._by_module:
            self._stack.enter_context(timer.running())
        self._stack.enter_context(module_calls(self._watch))
        self.running = True

    def stop(self) -> None:
        """Take everything off; what was seen stays."""
        self.running = False
        self._stack.close()

    def _reset(self) -> None:
        self._thread = 0
        self._by_module = True
        self._timer = None
        self._twin: nn.Module | None = None
        self._seen: Counter | None = None
        self._why_live = ""
        self._autocast = False
        self._entered = False
        self._seconds = 0.0
        self._first: Run | None = None

    # -- while the loop runs

    def _watch(self, call: Call) -> Call:
        def entering(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            timer = self._timer
            if self._entered or timer is None or threading.get_ident() != self._thread:
                return call(module, *args, **kwargs)
            site = timer.sites.row(module)
            if site is None:
                return call(module, *args, **kwargs)
            self._entered = True
            try:
                return self._enter(call, site.path, module, args, kwargs)
            finally:
                self._entered = False

        return entering

    def _enter(self, call: Call, path: str, module: nn.Module, args: Any, kwargs: Any) -> Any:
        assert self._clock is not None
        if self._first is None:
            self._first = Run(self.model, args, kwargs)
        with pausing():
            counted = self._count_on_twin(path, args, kwargs)
        self._clock.wait()
        begin = self._clock.now()
        try:
            if counted:
                return call(module, *args, **kwargs)
            counter = make_counter(self.model, Options(run=self._first))
            try:
                with counter:
                    return nn.Module.__call__(module, *args, **kwargs)
            finally:
                self._take(counter)
        finally:
            self._clock.wait()
            self._seconds += self._clock.now() - begin

    def _count_on_twin(self, path: str, args: Any, kwargs: Any) -> bool:
        """Count the call that is about to happen; False where it has to be counted while it happens."""
        if self._why_live:
            return False
        device = Run(self.model, args, kwargs).device
        try:
            if self._twin is None:
                self._twin, _ = make_twin(self.model)
            twin_args, twin_kwargs = on_meta(args), on_meta(kwargs)
            first = Run(self._twin, twin_args, twin_kwargs)
            counter = make_counter(self._twin, Options(run=first, target=device.type))
            with kept_rng(), internals.without_modes(), counter:
                self._twin.get_submodule(path)(*twin_args, **twin_kwargs)
        except NoTwinError as problem:
            self._why_live = str(problem)
            return False
        except Exception as problem:
            self._why_live = f"the meta twin does not run: {type(problem).__name__}: {problem}"
            return False
        self._autocast = self._autocast or torch.is_autocast_enabled(device.type)
        self._take(counter)
        return True

    def _take(self, counter: Counter) -> None:
        if self._seen is None:
            self._seen = counter
        else:
            self._seen.add(counter)

    # -- what came of it

    @property
    def profile(self) -> Profile:
        """What was seen so far."""
        if self._seen is None or self._timer is None:
            raise StateError("Nothing was profiled: call start_profile(), run the model, then ask for its numbers.")
        latencies = self._timer.sums() if self._by_module else {"": self._seconds}
        options = Options(run=self._first, ignored=self._ignored, latencies=latencies)
        result, _ = finished(self._seen, options)
        doubts: list[Caveat] = [CountedLive(self._why_live)] if self._why_live else []
        doubts += [TwinWithoutAutocast()] if self._autocast else []
        doubts += [] if self._by_module else [NotSplit()]
        return replace(result, timing=Timing(forward=Stat((self._seconds,))), caveats=(*result.caveats, *doubts))
