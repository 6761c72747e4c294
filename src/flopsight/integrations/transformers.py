"""A callback for the Trainer of transformers.

>>> callback = FlopsightCallback(steps=range(2, 7), save_to="profile.json").attach(trainer)  # doctest: +SKIP
>>> trainer.train(); print(callback.profile)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from ..results.profile import Profile
from ..results.records import PHASES
from ..results.run import Run
from ..results.world import World
from .follower import Follower
from .monitored_training import MonitoredTraining

if TYPE_CHECKING:
    from transformers import Trainer


class FlopsightCallback(TrainerCallback):  # type: ignore[misc]
    """Profiles a window of optimizer steps, counted from 0 in this run, and adds the figures to the next log."""

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
        self._figures: dict[str, float] = {}

    @property
    def run(self) -> Run | None:
        """With `monitor=True`, the run so far."""
        return None if self._monitored is None else self._monitored.run

    @property
    def profile(self) -> Profile | None:
        """The profile of the window; None before its last step."""
        return self._follower.profile

    def attach(self, trainer: Trainer) -> FlopsightCallback:
        """Join a trainer ahead of its other callbacks, so that TensorBoard and the like see what we add to a log."""
        others = [callback for callback in trainer.callback_handler.callbacks if callback is not self]
        trainer.callback_handler.callbacks[:] = [self, *others]
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin a window."""
        self._figures = {}
        if self._monitored is not None:
            self._monitored.begin(kwargs["model"], kwargs.get("optimizer"), main=state.is_world_process_zero)
            return
        self._follower.begin(
            kwargs["model"], kwargs.get("optimizer"), world=_world(args), main=state.is_world_process_zero
        )

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step begins, with the first of its batches."""
        if self._monitored is not None:
            self._monitored.step_begins()
            return
        self._follower.step_begins()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The optimizer has stepped; after the last step of a window, ask for a log."""
        if self._monitored is not None:
            # no log is asked for: ranks would not ask after the same step, and they exchange their losses for it
            self._figures |= self._monitored.step_ends()
            return
        self._figures |= self._follower.step_ends()
        if self._figures:
            control.should_log = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Add our figures, once; every rank logs equally often, since the ranks exchange their losses for it."""
        if logs is not None and state.is_world_process_zero:
            logs.update(self._figures)
        self._figures = {}

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation is not part of a step."""
        (self._follower if self._monitored is None else self._monitored).interrupted()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Neither is a checkpoint."""
        (self._follower if self._monitored is None else self._monitored).interrupted()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Training is over, perhaps before the window was."""
        (self._follower if self._monitored is None else self._monitored).end()


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
