"""A callback for the Trainer of Lightning.

>>> callback = FlopsightCallback(steps=range(2, 7), save_to="profile.json")  # doctest: +SKIP
>>> Trainer(callbacks=[callback]).fit(model, data); print(callback.profile)  # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ..distributed.topology import world_of
from .watched_training import WatchedTraining


class FlopsightCallback(WatchedTraining, Callback):  # type: ignore[misc]
    """Profiles a window of optimizer steps, counted from 0 in this run, and logs the figures with `log_dict`."""

    _step = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin a window; the sanity check has run by now."""
        optimizer = trainer.optimizers[0] if len(trainer.optimizers) == 1 else None
        self._step = trainer.global_step
        world = world_of([trainer.strategy.model])
        self._watching.begin(pl_module, optimizer, world=world, main=trainer.is_global_zero)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """A batch begins, and with it a step unless gradients accumulate."""
        self._watching.step_begins()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """A batch is done; the step is over if an optimizer has stepped."""
        if trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        figures = self._watching.step_ends()
        if figures:
            pl_module.log_dict(figures, rank_zero_only=True)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A validation is not part of a step."""
        self._watching.interrupted()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Training is over, perhaps before the window was."""
        self._watching.end()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Stop watching."""
        self._watching.stop()
