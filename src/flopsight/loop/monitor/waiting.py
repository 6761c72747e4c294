"""Listens to a loop of unknown models until it calls one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from ...capture.hooks.patches import Call
from .step_book import StepBook


class Waiting:
    """Listens until a loop of unknown models calls one; from then on the book does."""

    def __init__(self, begin: Callable[[Sequence[nn.Module]], StepBook]) -> None:
        self._begin = begin
        self._book: StepBook | None = None
        self.updates = 0
        """Of any optimizer, before a model was called."""

    def call_begins(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> Call:
        """The first call of a model: open the book."""
        if self._book is None:
            self._book = self._begin([module])
        return self._book.call_begins(module, args, kwargs, call)

    def call_ends(self, output: Any) -> None:
        """The first call has returned."""
        if self._book is not None:
            self._book.call_ends(output)

    def call_raised(self) -> None:
        """The first call has raised."""
        if self._book is not None:
            self._book.call_raised()

    def called_elsewhere(self) -> None:
        """A call on another thread."""

    def backward_begins(self, _tensors: Any, _partial: bool, _inputs: Any) -> None:
        """A backward of something else."""

    def backward_ends(self, _raised: bool) -> None:
        """Its end."""

    def updated(self, _optimizer: torch.optim.Optimizer, _unlike: str) -> None:
        """An update of something else, or of a model whose calls are hidden."""
        self.updates += 1

    def trains(self, _optimizer: torch.optim.Optimizer) -> bool:
        """Any optimizer may be the loop's."""
        return True

    def saving_begins(self) -> None:
        """A checkpoint of something else."""

    def saving_ends(self) -> None:
        """Its end."""

    def rebuilt(self) -> None:
        """A module was made."""

    def engine_stepped(self, _skipped: bool) -> None:
        """A step of something else."""
