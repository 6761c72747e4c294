"""`flopsight.monitor`: the context manager around a training loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...capture.model.model_run import ModelRun
from ...capture.time.clock import pausing
from ...errors import InputError, StateError, whole_number
from ...files.whole_files import check_writable
from ...results.profile import Profile
from ...results.run import Interval, Run
from ..window import check_optimizer
from .call_work import CallWork
from .deliveries import say
from .endings import Ending
from .intervals import Intervals
from .live_steps import SlowProfile
from .loop_watch import Admits, Listener, LoopWatch, steps_by_itself
from .process_memory import memory_use
from .series import Series
from .sinks import make_deliveries
from .step_book import StepBook, sentence
from .step_clock import StepClock
from .waiting import Waiting


def monitor(
    model: nn.Module | Sequence[nn.Module],
    optimizer: torch.optim.Optimizer | None = None,
    *,
    every: int = 10,
    to: Any = (),
    on_slow: Any = None,
) -> Monitor:
    """Watch a training loop: MFU, FLOPs, tokens, time, memory and energy of its steps, handed over every few steps.

    `model` is what is trained, or several models. A step ends with `live.step()`, or in a loop that never calls it with the
    step of `optimizer` (without one, of any optimizer). Every `every` steps a record goes `to` a function, a file's name, a
    stream, a tracker, or a list of these. `on_slow`, a function or a file's name, gets a profile of the next step like a slow one.

    >>> import torch, flopsight
    >>> model = torch.nn.Linear(8, 2, bias=False)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> seen = []
    >>> with flopsight.monitor(model, optimizer, every=2, to=seen.append) as live:
    ...     for _ in range(4):
    ...         model(torch.ones(4, 8)).sum().backward()
    ...         optimizer.step()
    >>> [record["flopsight/model_flops"] for record in seen]  # 2 * 4*8*2 forward, as much for the weight's gradient
    [256.0, 256.0]
    """
    return Monitor(_models(model), optimizer, every=every, to=to, on_slow=on_slow)


class Monitor:
    """A monitored loop; what it attaches to torch is there inside the `with` only."""

    def __init__(
        self,
        models: Sequence[nn.Module],
        optimizer: torch.optim.Optimizer | None = None,
        *,
        every: int = 10,
        to: Any = (),
        on_slow: Any = None,
        admits: Admits = lambda module: next(module.parameters(), None) is not None,
    ) -> None:
        """Without models, those that the loop calls and `admits` lets in are watched."""
        check_optimizer(optimizer)
        whole_number("every", every, 1)
        self._models = models
        self._given = bool(models)
        self._admits = admits
        self._entered = False
        self._ending: Ending | None = None
        self._optimizer = getattr(optimizer, "optimizer", optimizer)  # Accelerate wraps the one that steps
        self._every = every
        self._deliveries = make_deliveries(to)
        self._series = Series(self._deliveries)
        self._on_slow = None if on_slow is None else _receiver(on_slow)
        self._problem: str | None = None
        self._watch: LoopWatch | None = None
        self._book: StepBook | None = None
        self._waiting: Waiting | None = None

    def __enter__(self) -> Monitor:
        if self._entered:
            raise StateError(
                "This monitor has watched a loop already; make a new one: with flopsight.monitor(...): ..."
            )
        self._entered = True
        self._waiting = Waiting(self._begin)
        listener: Listener = self._begin(self._models) if self._models else self._waiting
        self._watch = LoopWatch(self._models or None, listener, self._admits)
        self._watch.start()
        self._ending = Ending(self._flush, self._abandon)
        self._ending.__enter__()
        return self

    def _begin(self, models: Sequence[nn.Module]) -> StepBook:
        """The model is known, and with it the device."""
        self._models = models
        device = ModelRun(models[0]).device
        clock = StepClock(device)
        work = CallWork(models if self._given else (), self._optimizer, clock, device)
        work.slow = None if self._on_slow is None else SlowProfile(self._on_slow)
        series = self._series
        intervals = Intervals(clock, self._every, series.timed, series.hand_over, work.found_later)
        intervals.memory = partial(memory_use, device)
        self._book = StepBook(work, clock, self._optimizer, intervals, self._fail)
        self._book.on_end = self._step_ended
        self._book.by_hand = any(map(steps_by_itself, models))
        series.begin(intervals, self._book, device, models)
        if self._watch is not None:
            self._watch.listener = self._book
        return self._book

    def __exit__(self, _kind: object, _problem: BaseException | None, _trace: object) -> None:
        self._detach()
        self._flush()

    def _flush(self) -> None:
        """Hand over what is left, once."""
        if self._ending is not None:
            self._ending.__exit__()
            self._ending = None
            try:
                if self._book is not None:
                    self._book.finish()
                self._series.finish()
            except Exception as failure:
                self._fail(failure)
            for delivery in self._deliveries:
                delivery.finish()

    def _abandon(self) -> None:
        """Stop in a process that was forked: the loop is its parent's."""
        self._ending = None
        self._detach()

    def step(self) -> None:
        """Say that a step of the loop is over; without this, a step ends with the optimizer's."""
        if self._watch is None:
            if self._problem is None:
                raise StateError("No loop is watched: call step() inside `with flopsight.monitor(...) as live:`.")
            return
        try:
            if self._book is not None:
                self._book.step()
        except Exception as problem:
            self._fail(problem)

    def restart_step(self) -> None:
        """Say that the next step begins only now: what the loop did since the last one is in no step."""
        if self._book is not None:
            self._book.restart()

    @property
    def updates_without_a_model(self) -> int:
        """How often an optimizer stepped before any model was called."""
        return 0 if self._waiting is None else self._waiting.updates

    @property
    def complete(self) -> int:
        """How many intervals were handed over."""
        return self._series.complete

    @property
    def latest(self) -> Interval | None:
        """The interval that was handed over last."""
        return self._series.latest

    def summary(self) -> Run:
        """The run so far: medians and spread, MFU over time, slow steps; it prints as text."""
        run = self._series.run()
        return run if self._problem is None else replace(run, notes=(*run.notes, self._problem))

    def _step_ended(self, called: bool) -> None:
        """Once a step has called a model, it is known which classes to watch, until something new may be called."""
        if self._watch is None or self._book is None:
            return
        if self._watch.searching:
            with pausing():
                self._watch.step_is_over()
        elif not called:
            self._watch.step_without_a_call()

    def _detach(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        if self._book is not None:
            self._book.work.close()

    def _fail(self, problem: Exception) -> None:
        """Stop watching after a failure of our own; the loop goes on."""
        if self._problem is None:
            self._problem = f"Monitoring ended: {sentence(problem)}"
            say(self._problem)
        self._detach()


def _receiver(on_slow: Any) -> Callable[[Profile], None]:
    """What takes the profile of a slow step: a function, or a .json file that is written."""
    if isinstance(on_slow, str | Path):
        path = Path(on_slow).absolute()
        if path.suffix != ".json":
            raise InputError(f"on_slow= names {on_slow}; a profile is saved as a .json file.")
        check_writable(path)
        on_slow = partial(Profile.save, path=path)
    if not callable(on_slow):
        raise InputError(f"on_slow must be a function of a profile, or a .json file, not {type(on_slow).__name__}.")

    def receive(profile: Profile) -> None:
        try:
            on_slow(profile)
        except Exception as problem:
            say(f"on_slow failed: {sentence(problem)}. Training goes on.")

    return receive


def _models(model: Any) -> list[nn.Module]:
    models = list(model) if isinstance(model, list | tuple) else [model]
    if not models:
        raise InputError("monitor() needs a model, and got an empty list.")
    for one in models:
        if not isinstance(one, nn.Module):
            raise InputError(f"The model must be a torch.nn.Module, not {type(one).__name__}.")
    return models
