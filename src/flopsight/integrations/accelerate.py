"""A window of steps in a loop that Accelerate runs.

>>> with step_profiler(accelerator, model, optimizer) as prof:  # doctest: +SKIP
...     for batch in data:
...         with accelerator.accumulate(model):
...             ...
...         prof.step()
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn

from ..distributed.topology import world_of
from ..loop.window import check_optimizer
from ..results.records import PHASES
from .watched_training import WatchedTraining


class AcceleratedSteps(WatchedTraining):
    """Counts a step when gradients were synchronized, and logs the figures with the accelerator's trackers."""

    def __init__(self, accelerator: Accelerator, model: nn.Module, optimizer: Any, *watched: Any, **how: Any) -> None:
        super().__init__(*watched, **how)
        self._accelerator = accelerator
        world, main = world_of([model]), accelerator.is_main_process
        self._begin = partial(self._watching.begin, accelerator.unwrap_model(model), optimizer, world=world, main=main)

    def __enter__(self) -> AcceleratedSteps:
        self._begin()
        self._watching.step_begins()
        return self

    def step(self) -> None:
        """Say that a batch is done; the step is over if it was the last to accumulate."""
        if not self._accelerator.sync_gradients:
            return
        figures = self._watching.step_ends()
        if figures:
            self._accelerator.log(figures)
        self._watching.step_begins()

    def __exit__(self, problem: type[BaseException] | None, *_details: object) -> None:
        if problem is None:
            self._watching.end()
        else:
            self._watching.stop()


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
) -> AcceleratedSteps:
    """Profile a window of optimizer steps of a model that `accelerator.prepare` returned; with `monitor`, watch them all."""
    check_optimizer(optimizer)
    how = {"monitor": monitor, "every": every, "to": to}
    return AcceleratedSteps(accelerator, model, optimizer, steps, save_to, phases, **how)
