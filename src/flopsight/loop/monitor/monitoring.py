"""`flopsight.monitor`: the context manager around a training loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ...capture.model.model_run import ModelRun
from ...capture.time.clock import pausing
from ...engine.run_profile import environment
from ...errors import InputError, StateError, whole_number
from ...results.run import Run, thinned
from ..window import check_optimizer
from .call_work import CallWork
from .deliveries import say
from .intervals import Intervals
from .loop_watch import LoopWatch
from .sinks import make_deliveries
from .step import Step
from .step_book import StepBook, sentence
from .step_clock import StepClock

MOST_KEPT = 2000
"""Intervals that are kept in memory; neighbours are joined when there are more."""


def monitor(
    model: nn.Module | Sequence[nn.Module],
    optimizer: torch.optim.Optimizer | None = None,
    *,
    every: int = 10,
    to: Any = (),
    on_slow: Any = None,
) -> Monitor:
    """Watch a training loop: MFU, FLOPs, tokens, time, memory and energy of its steps, handed over every few steps.

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
    ) -> None:
        check_optimizer(optimizer)
        whole_number("every", every, 1)
        self._models = models
        self._optimizer = getattr(optimizer, "optimizer", optimizer)  # Accelerate wraps the one that steps
        self._every = every
        self._on_slow = on_slow
        self._deliveries = make_deliveries(to)
        self._kept: list[Any] = []
        self._problem: str | None = None
        self._watch: LoopWatch | None = None
        self._book: StepBook | None = None
        self._intervals: Intervals | None = None
        self._environment = environment(ModelRun(models[0])) if models else environment(None)

    def __enter__(self) -> Monitor:
        if self._book is not None:
            raise StateError(
                "This monitor has watched a loop already; make a new one: with flopsight.monitor(...): ..."
            )
        device = ModelRun(self._models[0]).device
        clock = StepClock(device)
        self._intervals = Intervals(clock, self._every, self._timed)
        work = CallWork(self._models, clock, device)
        self._book = StepBook(work, clock, self._optimizer, self._stepped, self._step_ended, self._fail)
        self._watch = LoopWatch(self._models, self._book, lambda _module: True)
        self._watch.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self._detach()
        if self._book is None or self._intervals is None:
            return
        try:
            self._book.finish()
            for interval in self._intervals.finish():
                self._hand_over(interval)
        except Exception as problem:
            self._fail(problem)
        for delivery in self._deliveries:
            delivery.finish()

    def step(self) -> None:
        """Say that a step of the loop is over; without this, a step ends with the optimizer's."""
        if self._watch is None or self._book is None:
            if self._problem is None:
                raise StateError("No loop is watched: call step() inside `with flopsight.monitor(...) as live:`.")
            return
        try:
            self._book.step()
        except Exception as problem:
            self._fail(problem)

    def summary(self) -> Run:
        """The run so far: medians and spread, MFU over time, slow steps; it prints as text."""
        notes = [] if self._book is None else list(self._book.work.notes)
        if self._problem is not None:
            notes.append(self._problem)
        return Run(
            model=type(self._models[0]).__name__,
            environment=self._environment,
            intervals=tuple(self._kept),
            shapes=0 if self._book is None else len(self._book.work.counted.known),
            notes=tuple(notes),
            profile=None if self._book is None else self._book.work.counted.first,
        )

    def _step_ended(self) -> None:
        if self._watch is not None:
            with pausing():
                self._watch.step_is_over()

    def _stepped(self, step: Step) -> None:
        assert self._intervals is not None
        for interval in self._intervals.add(step):
            self._hand_over(interval)

    def _timed(self, number: int, step: Step, seconds: float) -> None:
        """A step's time is known."""

    def _hand_over(self, interval: Any) -> None:
        self._kept.append(interval)
        if len(self._kept) > MOST_KEPT:
            self._kept[:] = thinned(self._kept, MOST_KEPT // 2)
        figures = interval.figures()
        for delivery in self._deliveries:
            delivery.put(interval, figures)

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


def _models(model: Any) -> list[nn.Module]:
    models = list(model) if isinstance(model, list | tuple) else [model]
    if not models:
        raise InputError("monitor() needs a model, and got an empty list.")
    for one in models:
        if not isinstance(one, nn.Module):
            raise InputError(f"The model must be a torch.nn.Module, not {type(one).__name__}.")
    return models
