"""Steps whose work only a count of the step itself can tell: counted while they run, once for each kind of step."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch import nn

from ...capture.count.dispatch import Counter
from ...capture.hooks.patches import Call
from ...capture.model.model_run import ModelRun
from ...capture.model.sites import Sites
from ...capture.time.clock import pausing
from ...engine.counting import make_counter
from ...engine.run_profile import Options, build_profile
from ...results.profile import Profile
from .counted_work import UNCOUNTED, CallCount, CountedWork
from .step import Step, size_of

MOST_STEPS = 16
"""Steps that are counted while they run, which slows them; the work of further kinds is interpolated in their tokens."""
MOST_VAIN = 16
"""Further steps that are counted and turn out to be of a known kind."""
MOST_PROFILES = 3
"""Profiles of slow steps in a run."""


class StepCounter:
    """A counter from the first call of a step to its end; the step is slowed, and says so."""

    def __init__(self) -> None:
        self._counter: Counter | None = None
        self._model: nn.Module | None = None

    @property
    def running(self) -> bool:
        """True from the beginning of a counted step to its end."""
        return self._counter is not None

    def start(self, step: Step, module: nn.Module, call: Call) -> Call:
        """Count from here on; gives what is to be called in place of `call`."""
        with pausing():
            # every module that the step calls is a root of its own, and the loop's work outside them is counted too
            self._counter = make_counter(Sites(), Options(in_loop=True))
            self._counter.__enter__()
        self._model, step.slowed = module, True
        return self._counter.watch(call)

    def finish(self) -> Profile:
        """The profile of what ran since."""
        counter, self._counter = self._counter, None
        assert counter is not None
        assert self._model is not None
        with pausing():
            counter.__exit__(None, None, None)
            run = ModelRun(self._model, (torch.empty(0),))
            return build_profile(counter.tape, counter.sites, Options(run=run))

    def close(self) -> None:
        """Stop counting at once."""
        counter, self._counter = self._counter, None
        if counter is not None:
            counter.__exit__(None, None, None)


class LiveSteps:
    """Counts a step from its first call of the model to its end, if no step like it was counted before."""

    def __init__(self, counted: CountedWork, *, varies: bool = False) -> None:
        self._counted = counted
        self.varies = varies
        """True if values decide how much work steps of one kind do: that of a counted one is an estimate for the others."""
        self._counter = StepCounter()
        self._beginnings: set[Hashable] = set()
        self._missed: Hashable = None
        """The last step that began like a known one and then differed; steps are counted until one like it is."""
        self._done = 0
        self._vain = 0

    def begin(self, step: Step, module: nn.Module, call: Call) -> Call:
        """At a call of the model: count from here on, if the step may be a new one."""
        if self._counter.running or step.calls.number > 1 or self._done >= MOST_STEPS:
            return call
        if self._missed is None and step.calls.kinds[-1].key in self._beginnings:
            return call
        self._done += 1
        return self._counter.start(step, module, call)

    def end(self, step: Step) -> CallCount:
        """The work of a step that is over: counted now or before, not known yet, or an estimate if no more are counted."""
        if step.failed:
            self._counter.close()
            return UNCOUNTED
        key = step.calls.key
        size = size_of(step.sums.tokens, step.sums.samples)
        if self._counter.running:
            profile = self._counter.finish()
            self._beginnings.update([kind.key for kind in step.calls.own[:1]])
            if key in self._counted.known and self._vain < MOST_VAIN:
                self._vain += 1
                self._done -= 1
            if key == self._missed:
                self._missed = None
            return self._counted.remember(key, "step", size, profile)
        work = self._counted.known.get(key)
        if work is None and step.calls.number:
            self._missed = key
            return self._counted.estimate("step", size) if self._done >= MOST_STEPS else UNCOUNTED
        if work is None:
            return UNCOUNTED
        return work.as_estimate() if self.varies else work

    def close(self) -> None:
        """Stop counting at once."""
        self._counter.close()


class SlowProfile:
    """Takes a profile of the next step that begins like one that was slow, and hands it on."""

    def __init__(self, deliver: Callable[[Profile], None]) -> None:
        self._deliver = deliver
        self._counter = StepCounter()
        self._wanted: Hashable = None
        self._left = MOST_PROFILES

    def want(self, step: Step) -> None:
        """A step was slow."""
        if self._left and step.calls.number and self._wanted is None:
            self._wanted = step.calls.own[0].key

    def begin(self, step: Step, module: nn.Module, call: Call) -> Call:
        """At the first call of a step: count it if one like it was slow."""
        if self._wanted is None or step.calls.number != 1 or step.slowed or step.calls.kinds[-1].key != self._wanted:
            return call
        self._wanted, self._left = None, self._left - 1
        return self._counter.start(step, module, call)

    def end(self) -> None:
        """At the end of a step: hand on its profile, if it was counted."""
        if self._counter.running:
            self._deliver(self._counter.finish())

    def close(self) -> None:
        """Stop counting at once."""
        self._counter.close()
