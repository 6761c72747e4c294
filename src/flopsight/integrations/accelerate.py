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

import torch
from accelerate import Accelerator
from torch import nn

from ..distributed.topology import world_of
from ..loop.window import check_optimizer
from ..results.profile import Profile
from ..results.records import PHASES
from .follower import Follower


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


def step_profiler(
    accelerator: Accelerator,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    steps: Iterable[int] = range(2, 7),
    save_to: str | Path | None = None,
    phases: Sequence[str] = PHASES,
) -> AcceleratedSteps:
    """Profile a window of optimizer steps of a model that `accelerator.prepare` returned."""
    check_optimizer(optimizer)
    follower = Follower(steps, save_to, phases)
    follower.begin(
        accelerator.unwrap_model(model), optimizer, world=world_of([model]), main=accelerator.is_main_process
    )
    return AcceleratedSteps(accelerator, follower)
