"""A callback for the Trainer of Lightning.

>>> callback = FlopsightCallback(steps=range(2, 7), save_to="profile.json")  # doctest: +SKIP
>>> Trainer(callbacks=[callback]).fit(model, data); print(callback.profile)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ..distributed.topology import world_of
from ..results.profile import Profile
from ..results.records import PHASES
from ..results.run import Run
from .follower import Follower
from .monitored_training import MonitoredTraining


class FlopsightCallback(Callback):  # type: ignore[misc]
    """Profiles a window of optimizer steps, counted from 0 in this run, and logs the figures with `log_dict`."""

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
        self._step = 0

    @property
    def run(self) -> Run | None:
        """With `monitor=True`, the run so far."""
        return None if self._monitored is None else self._monitored.run

    @property
    def profile(self) -> Profile | None:
        """The profile of the window; None before its last step."""
        return self._follower.profile

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin a window; the sanity check has run by now."""
        optimizer = trainer.optimizers[0] if len(trainer.optimizers) == 1 else None
        self._step = trainer.global_step
        if self._monitored is not None:
            self._monitored.begin(pl_module, optimizer, main=trainer.is_global_zero)
            return
        world = world_of([trainer.strategy.model])
        self._follower.begin(pl_module, optimizer, world=world, main=trainer.is_global_zero)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """A batch begins, and with it a step unless gradients accumulate."""
        (self._follower if self._monitored is None else self._monitored).step_begins()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A batch is done; the step is over where an optimizer has stepped."""
        if trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        figures = (self._follower if self._monitored is None else self._monitored).step_ends()
        if figures:
            pl_module.log_dict(figures, rank_zero_only=True)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A validation is not part of a step."""
        (self._follower if self._monitored is None else self._monitored).interrupted()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Training is over, perhaps before the window was."""
        (self._follower if self._monitored is None else self._monitored).end()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Stop watching."""
        self._follower.stop()
        if self._monitored is not None:
            self._monitored.end()
