"""What callbacks share: their settings, and with `monitor=True` a monitor whose figures go to the framework's logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ..loop.monitor.monitoring import Monitor
from ..loop.monitor.sinks import as_list
from ..results.profile import Profile
from ..results.records import PHASES
from ..results.run import Run
from ..results.world import ALONE, World
from .follower import Follower


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
        """With `monitor`, every step is watched instead of a window, and each `every` steps have their figures logged."""
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
