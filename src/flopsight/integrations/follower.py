"""What every callback shares: a window of steps over a framework's loop, whose profile is saved and logged once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from ..analysis.phase_filter import only
from ..config import parse_phases
from ..errors import OutputError, StateError
from ..files.whole_files import check_writable
from ..loop.schedule import checked_steps
from ..loop.window import StepWindow
from ..results.profile import Profile
from ..results.records import PHASES
from ..results.world import ALONE, World
from .trackers import scalars


class Follower:
    """A framework calls it when training and its steps begin and end; a step ends with the optimizer's update."""

    def __init__(
        self,
        steps: Iterable[int] = range(2, 7),
        save_to: str | Path | None = None,
        phases: Sequence[str] = PHASES,
    ) -> None:
        self.steps = checked_steps(steps)
        if save_to is not None:
            check_writable(save_to)
        self.save_to = save_to
        self.phases = parse_phases(phases)
        self.profile: Profile | None = None
        """The profile of the window; None before its last step."""
        self._window: StepWindow | None = None
        self._world = ALONE
        self._main = True
        self._in_step = False
        self._waited = False

    def begin(self, model: nn.Module, optimizer: Any = None, *, world: World = ALONE, main: bool = True) -> None:
        """Training begins, perhaps not for the first time; only the `main` process writes files."""
        self.stop()
        self.profile = None
        inner = getattr(optimizer, "optimizer", optimizer)  # Accelerate wraps the one that steps
        self._window = StepWindow(model, inner, self.steps, guarded=True)
        self._world = world
        self._main = main
        self._waited = False

    def step_begins(self) -> None:
        """A step begins, or its next batch, where gradients accumulate."""
        if self._window is not None and not self._in_step:
            self._window.resume(waited=self._waited)
            self._in_step = self._waited = True

    def step_ends(self) -> dict[str, float]:
        """A step is over: the figures to log, where it was the last of the window."""
        if self._window is None or not self._in_step:
            return {}
        self._in_step = False
        self._window.pause()
        return self._finish(self._window) if self._window.done else {}

    def interrupted(self) -> None:
        """An evaluation or a checkpoint ran between two steps, so the time since the last one is not waiting for data."""
        self._waited = False

    def end(self) -> None:
        """Training is over; an incomplete window is kept as far as it went."""
        window = self._window
        self.stop()
        if window is None:
            return
        try:
            self._finish(window)
        except StateError:
            warnings.warn(
                f"Training ended after {window.current} steps, before step {self.steps[0]}, where the window begins: nothing "
                f"was profiled. Choose earlier steps.",
                stacklevel=2,
            )

    def stop(self) -> None:
        """Stop watching at once."""
        if self._window is not None:
            self._window.close()
        self._window = None
        self._in_step = False

    def _finish(self, window: StepWindow) -> dict[str, float]:
        self._window = None
        self.profile = only(replace(window.profile, world=self._world), self.phases)
        if self.save_to is not None and self._main:
            try:
                self.profile.save(self.save_to)
            except OutputError as problem:  # training is worth more than the file
                warnings.warn(str(problem), stacklevel=2)
        return scalars(self.profile)
