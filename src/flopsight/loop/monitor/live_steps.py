"""Steps whose work only a count of the step itself can tell: counted while they run, once for each kind of step."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import nn

from ...capture.count.dispatch import Counter
from ...capture.hooks.patches import Call
from ...capture.model.model_run import ModelRun
from ...capture.model.sites import Sites
from ...capture.time.clock import pausing
from ...engine.counting import make_counter
from ...engine.run_profile import Options, build_profile
from .counted_work import CallCount, CountedWork
from .step import Step

MOST_STEPS = 16
"""Steps that are counted while they run, which slows them; the work of further kinds is interpolated in their tokens."""


class LiveSteps:
    """Counts a step from its first call of the model to its end, if no step like it was counted before."""

    def __init__(self, counted: CountedWork) -> None:
        self._counted = counted
        self._beginnings: set[Hashable] = set()
        self._again = False
        """True after a step that began like a known one and then differed: the next one is counted."""
        self._done = 0
        self._counter: Counter | None = None
        self._model: nn.Module | None = None

    def begin(self, step: Step, module: nn.Module, call: Call) -> Call:
        """At a call of the model: count from here on, if the step may be a new one."""
        if self._counter is not None:
            return call
        first = len(step.keys) == 1
        if not first or self._done >= MOST_STEPS or not (self._again or step.keys[0] not in self._beginnings):
            return call
        with pausing():
            # every module that the step calls is a root of its own, the loop's work outside them included
            self._counter = make_counter(Sites(), Options(in_loop=True))
            self._counter.__enter__()
        self._model, self._done, step.slowed = module, self._done + 1, True
        return self._counter.watch(call)

    def end(self, step: Step) -> CallCount | None:
        """The work of a step that is over, counted now or before; an estimate if it is none of those."""
        key: Hashable = ("step", tuple(step.keys), step.backwards)
        size = (step.tokens or step.samples or 0) if step.calls else 0
        counter, self._counter = self._counter, None
        if counter is not None:
            with pausing():
                counter.__exit__(None, None, None)
                assert self._model is not None
                run = ModelRun(self._model, (torch.empty(0),))
                profile = build_profile(counter.tape, counter.sites, Options(run=run))
                self._beginnings.update(step.keys[:1])
                self._again = False
                return self._counted.remember(key, "step", size, profile)
        work = self._counted.known.get(key)
        if work is None and step.keys:
            self._again = True
            return self._counted.estimate("step", size)
        return work

    def close(self, problem: Any = None) -> None:
        """Stop counting at once."""
        counter, self._counter = self._counter, None
        if counter is not None:
            counter.__exit__(type(problem) if problem else None, problem, None)
