"""A callback for the Trainer of transformers.

>>> callback = FlopsightCallback(steps=range(2, 7), save_to="profile.json").attach(trainer)  # doctest: +SKIP
>>> trainer.train(); print(callback.profile)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from ..results.world import World
from .watched_training import WatchedTraining

if TYPE_CHECKING:
    from transformers import Trainer


class FlopsightCallback(WatchedTraining, TrainerCallback):  # type: ignore[misc]
    """Profiles a window of optimizer steps, counted from 0 in this run, and adds the figures to the next log."""

    _figures: Mapping[str, float] = {}

    def attach(self, trainer: Trainer) -> FlopsightCallback:
        """Join a trainer ahead of its other callbacks, so that TensorBoard and the like see what we add to a log."""
        others = [callback for callback in trainer.callback_handler.callbacks if callback is not self]
        trainer.callback_handler.callbacks[:] = [self, *others]
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a window."""
        self._figures = {}
        main = state.is_world_process_zero
        self._watching.begin(kwargs["model"], kwargs.get("optimizer"), world=_world(args), main=main)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step begins, with the first of its batches."""
        self._watching.step_begins()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The optimizer has stepped; after the last step of a window, ask for a log."""
        self._figures = {**self._figures, **self._watching.step_ends()}
        # a monitor asks for no log: ranks would not ask after the same step, and they exchange their losses for it
        if self._figures and self._monitored is None:
            control.should_log = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Add our figures, once; every rank logs equally often, since the ranks exchange their losses for it."""
        if logs is not None and state.is_world_process_zero:
            logs.update(self._figures)
        self._figures = {}

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation is not part of a step."""
        self._watching.interrupted()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Neither is a checkpoint."""
        self._watching.interrupted()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Training is over, perhaps before the window was."""
        self._watching.end()


def _world(args: Any) -> World:
    """The processes as the Trainer has them; it does not show its callbacks the model that wraps theirs."""
    parallel = getattr(args, "parallelism_config", None)
    ways = parallel.non_data_parallel_size if parallel is not None else 1
    return World(
        size=args.world_size,
        rank=args.process_index,
        data_parallel=max(1, args.world_size // ways),
        model_parallel=ways,
        sharded=bool(args.fsdp),
    )
