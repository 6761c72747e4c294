"""What callbacks of frameworks share: a window of steps whose profile is saved and logged once, or every step monitored."""

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
from ..loop.monitor.monitoring import Monitor
from ..loop.monitor.sinks import as_list
from ..loop.schedule import checked_steps
from ..loop.window import StepWindow
from ..results.profile import Profile
from ..results.records import PHASES
from ..results.run import Run
from ..results.world import ALONE, World
from .trackers import scalars


class Follower:
    """A framework calls it when training and its steps begin and end; a step ends with the optimizer's update."""

    def __init__(self, steps: Iterable[int], save_to: str | Path | None = None, phases: Sequence[str] = PHASES) -> None:
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
        """A step begins, or its next batch, if gradients accumulate."""
        if self._window is not None and not self._in_step:
            self._window.resume(waited=self._waited)
            self._in_step = self._waited = True

    def step_ends(self) -> dict[str, float]:
        """A step is over: the figures to log, if it was the last of the window."""
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


class MonitoredTraining:
    """A framework calls it when training and its steps begin and end."""

    def __init__(self, every: int = 10, to: Any = ()) -> None:
        self._every, self._to = every, as_list(to)
        self._live: Monitor | None = None
        self._ran: Run | None = None
        self._interrupted = False
        self._handed = 0
        Monitor([], every=every, to=self._to)  # what is wrong with the settings is said now, not when training begins

    @property
    def run(self) -> Run | None:
        """The run so far; None before training begins."""
        return self._ran if self._live is None else self._live.summary()

    def begin(self, model: nn.Module, optimizer: Any = None, *, world: World = ALONE, main: bool = True) -> None:
        """Training begins; only the `main` process hands figures over. A monitor finds its `world` by itself."""
        self.end()
        self._handed = 0
        self._live = Monitor([model], optimizer, every=self._every, to=self._to if main else ())
        self._live.__enter__()

    def step_begins(self) -> None:
        """A step begins; what an evaluation or a checkpoint took before it is in no step."""
        if self._live is not None and self._interrupted:
            self._live.restart_step()
        self._interrupted = False

    def step_ends(self) -> dict[str, float]:
        """A step is over: the figures to log, if an interval is complete."""
        if self._live is None:
            return {}
        self._live.step()
        intervals = self._live.complete
        if intervals == self._handed:
            return {}
        self._handed = intervals
        latest = self._live.latest
        return {} if latest is None else latest.figures()

    def interrupted(self) -> None:
        """An evaluation or a checkpoint ran between two steps."""
        self._interrupted = True

    def end(self) -> None:
        """Training is over."""
        live, self._live = self._live, None
        if live is not None:
            live.__exit__(None, None, None)
            self._ran = live.summary()

    stop = end
    """What was seen before an exception is kept."""


class WatchedTraining:
    """What a framework's callback is made of: a window of steps that is profiled, or with `monitor` every step watched."""

    def __init__(
        self,
        steps: Iterable[int] = range(2, 7),
        save_to: str | Path | None = None,
        phases: Sequence[str] = PHASES,
        *,
        monitor: bool = False,
        every: int = 10,
        to: Any = (),
    ) -> None:
        """With `monitor`, every step is watched instead of a window, and figures are logged after each `every` steps."""
        self._follower = Follower(steps, save_to, phases)
        self._monitored = MonitoredTraining(every, to) if monitor else None
        self._watching: Follower | MonitoredTraining = self._monitored or self._follower

    @property
    def run(self) -> Run | None:
        """With `monitor=True`, the run so far."""
        return None if self._monitored is None else self._monitored.run

    @property
    def profile(self) -> Profile | None:
        """The profile of the window; None before its last step."""
        return self._follower.profile
