"""The loop of a script: finds its models and steps while it runs, and profiles one window of the steps."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch

from ..capture.model.sites import Sites
from ..distributed.topology import rank_and_size
from ..errors import InputError
from ..loop.step_boundaries import Boundary, OptimizerCycle
from ..loop.updates import Updates
from ..loop.window import StepWindow
from ..results.caveats import MovedWindow, Note
from ..results.profile import Profile
from .model_finder import ModelFinder
from .search import FORWARD, OPTIMIZER, Search

SEVERAL = "several optimizers step in turn, and where that step ended was known only after it"
FORWARDS_ONLY = Note("A step is a forward here: a backward that follows it is not part of the step.")
UNSEEN = "where that step began was known only after it"


class ScriptLoop:
    """Watches a script from the import of torch on, and calls `on_profile` or `on_failure` when its window is over.

    A step ends with an optimizer's step. A script without an optimizer infers: there a step is a forward of the first
    model that it calls. Outside the window, a hook that counts is all that runs.
    """

    def __init__(
        self, search: Search, *, on_profile: Callable[[Profile], None], on_failure: Callable[[Exception], None]
    ) -> None:
        self.cycle = OptimizerCycle()
        self.forwards = 0
        self.per = search.per
        self.delivered = False
        """True after one of the two callbacks was called."""
        self._search = search
        self._on_profile, self._on_failure = on_profile, on_failure
        self._updates = Updates(self._stepped)
        self._finder = ModelFinder(search.admits, self._forward)
        self._window: StepWindow | None = None
        self._several = self._recorded = False
        self._over = False

    # -- on and off

    def watch(self) -> None:
        """Start watching this process; processes that it forks, such as data loaders, are not watched."""
        self._updates.watch()
        if self.per != OPTIMIZER or self._search.first == 0:
            self._finder.watch()
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=self._leave)

    def _leave(self) -> None:
        """Stop watching, in a forked process or after a failure."""
        self._over = True
        window, self._window = self._window, None
        with suppress(Exception):  # the thread that forked may not be the one that holds our modes
            self._finder.end()
            if window is not None:
                window.abandon()

    def end(self, problem: BaseException | None) -> None:
        """Stop at the end of the script; a window that is not complete is handed over as far as it went.

        A step that was cut off counts only if the script raised: otherwise the script just stopped calling its model.
        """
        self._over = True
        self._finder.end()
        self._updates.end()
        window = self._window
        if window is None:
            return
        window.__exit__(type(problem), problem, None)
        if window.counted or (problem is not None and window.cut_off):
            self._deliver(window)

    # -- what was seen

    @property
    def model_name(self) -> str:
        """The class of the model whose forwards were counted."""
        return self._finder.name

    @property
    def others(self) -> str:
        """The classes that were called and not asked for, in words."""
        names = self._finder.passed_by
        return f" (called were {', '.join(names)})" if names else ""

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return rank_and_size()[0]

    # -- steps that an optimizer ends

    def _stepped(self, optimizer: torch.optim.Optimizer, unlike: str) -> None:
        if self._over or self.per == FORWARD:
            return
        boundary = self.cycle.stepped(optimizer)
        early = self._window is None and self.cycle.steps < self._search.lead and self.per == OPTIMIZER
        if boundary is not Boundary.WITHIN and not early:
            with self._guarded():
                self._end_update(optimizer, boundary, unlike)

    def _end_update(self, optimizer: torch.optim.Optimizer, boundary: Boundary, unlike: str) -> None:
        self.per = OPTIMIZER
        self._finder.end()
        if boundary is Boundary.MOVED:
            self._begin_again()
        elif self._window is not None:
            self._end_step(self._window, unlike)
        if self._window is None and not self._over and self.cycle.steps >= self._search.lead:
            self._begin(self.cycle.steps, [optimizer])

    # -- steps that are forwards

    def _forward(self, call: Callable[[], Any]) -> Any:
        if self._window is None and self.forwards >= self._search.first and not self._over:
            with self._guarded():
                self._decide()
        result = call()
        self.forwards += 1
        if self._window is not None and self.per == FORWARD:
            with self._guarded():
                self._end_step(self._window)
        return result

    def _decide(self) -> None:
        """Find out, at the forward that could be the first of the window, whether a step is a forward or an update."""
        if self.per is None:
            # An optimizer may exist that has not stepped yet: with a window from step 0, or after many accumulated
            # batches. Optimizers are not registered anywhere, so the objects of the process are searched, once.
            exists = any(issubclass(type(one), torch.optim.Optimizer) for one in gc.get_objects())
            self.per = OPTIMIZER if exists else FORWARD
        if self.per == FORWARD:
            self._recorded = torch.is_grad_enabled()
            self._begin(self.forwards)
        elif self._search.first > 0:
            self._finder.end()
        elif torch.is_grad_enabled():
            self._finder.end()
            self._begin(0)

    # -- the window

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Let a failure of ours end the profile and not the script."""
        try:
            yield
        except Exception as problem:
            self._leave()
            self.delivered = True
            self._on_failure(problem)

    def _begin(self, current: int, optimizers: list[torch.optim.Optimizer] | None = None) -> None:
        steps = range(max(self._search.first, current), max(self._search.last, current) + 1)
        self._window = StepWindow(Sites(admits=self._search.admits), steps=steps, current=current)
        self._window.optimizers += optimizers or []
        self._window.__enter__()

    def _begin_again(self) -> None:
        if self._window is not None:
            self._several = True
            self._window.abandon()
            self._window = None

    def _end_step(self, window: StepWindow, unlike: str = "") -> None:
        window.step(unlike)
        if window.done:
            self._over = True
            self._window = None
            window.close()
            self._finder.end()
            self._updates.end()
            self._deliver(window)

    def _deliver(self, window: StepWindow) -> None:
        self.delivered = True
        try:
            profile = self._profile_of(window)
        except Exception as problem:
            self._on_failure(problem)
        else:
            self._on_profile(profile)

    def _profile_of(self, window: StepWindow) -> Profile:
        if not window.sites.roots:
            called = ", ".join(window.sites.passed_by) or "none"
            raise InputError(
                f"No {self._search.wanted} was called in step {window.steps[0]}; modules called: {called}."
            )
        result = window.profile
        if self._recorded:
            result = replace(result, caveats=(*result.caveats, FORWARDS_ONLY))
        if window.schedule.asked == self._search.first or result.step is None:
            return result
        moved = MovedWindow(self._search.first, result.step, SEVERAL if self._several else UNSEEN)
        return replace(result, caveats=(*result.caveats, moved))
