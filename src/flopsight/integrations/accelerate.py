"""A window of steps in a loop that Accelerate runs.

>>> with step_profiler(accelerator, model, optimizer) as prof:  # doctest: +SKIP
...     for batch in data:
...         with accelerator.accumulate(model):
...             ...
...         prof.step()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn

from ..distributed.topology import world_of
from ..loop.window import check_optimizer
from ..results.profile import Profile
from ..results.records import PHASES
from ..results.run import Run
from .follower import Follower
from .monitored_training import MonitoredTraining


class AcceleratedSteps:
    """Counts a step where gradients were synchronized, and logs the figures with the accelerator's trackers."""

    def __init__(self, accelerator: Accelerator, follower: Follower) -> None:
        self._accelerator = accelerator
        self._follower = follower

    @property
    def profile(self) -> Profile | None:
        """The profile of the window; None before its last step."""
        return self._follower.profile

    def __enter__(self) -> AcceleratedSteps:
        self._follower.step_begins()
        return self

    def step(self) -> None:
        """Say that a batch is done; the step is over where it was the last to accumulate."""
        if not self._accelerator.sync_gradients:
            return
        figures = self._follower.step_ends()
        if figures:
            self._accelerator.log(figures)
        self._follower.step_begins()

    def __exit__(self, problem: type[BaseException] | None, *details: object) -> None:
        if problem is None:
            self._follower.end()
        else:
            self._follower.stop()


class MonitoredSteps:
    """Every step of a loop that Accelerate runs; its figures go to the accelerator's trackers."""

    def __init__(self, accelerator: Accelerator, training: MonitoredTraining, model: nn.Module, optimizer: Any) -> None:
        self._accelerator = accelerator
        self._training = training
        self._model, self._optimizer = model, optimizer

    @property
    def run(self) -> Run | None:
        """The run so far."""
        return self._training.run

    def __enter__(self) -> MonitoredSteps:
        self._training.begin(self._model, self._optimizer, main=self._accelerator.is_main_process)
        return self

    def step(self) -> None:
        """Say that a batch is done; the step is over if it was the last to accumulate."""
        if self._accelerator.sync_gradients:
            figures = self._training.step_ends()
            if figures:
                self._accelerator.log(figures)

    def __exit__(self, *_details: object) -> None:
        self._training.end()


def step_profiler(
    accelerator: Accelerator,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    steps: Iterable[int] = range(2, 7),
    save_to: str | Path | None = None,
    phases: Sequence[str] = PHASES,
    *,
    monitor: bool = False,
    every: int = 10,
    to: Any = (),
) -> AcceleratedSteps | MonitoredSteps:
    """Profile a window of optimizer steps of a model that `accelerator.prepare` returned; with `monitor`, watch them all."""
    check_optimizer(optimizer)
    if monitor:
        return MonitoredSteps(accelerator, MonitoredTraining(every, to), accelerator.unwrap_model(model), optimizer)
    follower = Follower(steps, save_to, phases)
    follower.begin(
        accelerator.unwrap_model(model), optimizer, world=world_of([model]), main=accelerator.is_main_process
    )
    return AcceleratedSteps(accelerator, follower)
