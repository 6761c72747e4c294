"""The updates of a script's optimizers: told after they are over, those that were skipped too, on the thread that trains."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import get_ident
from typing import Any

import torch

from ..capture.hooks.internals import graph_task
from ..capture.hooks.optimizer_steps import after_optimizer_steps, let_go
from ..capture.hooks.patches import Call, wrapped

SKIPPED = "the gradient scaler skipped its update"
Told = Callable[[torch.optim.Optimizer, str], None]


class Updates:
    """Calls `told(optimizer, "")` after an update, or with the reason why there was none."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._stack = ExitStack()
        self._thread: int | None = None
        self._number = 0
        self._waiting: list[torch.optim.Optimizer] | None = None

    def watch(self) -> None:
        """Begin to listen."""
        self._stack.enter_context(after_optimizer_steps(self._stepped))
        self._stack.enter_context(wrapped(torch.amp.GradScaler, "step", self._scaled))

    def end(self) -> None:
        """Take everything off; hooks that torch is running are left, with nothing to do, until this is called again."""
        self._stack.close()
        let_go()

    def _stepped(self, optimizer: torch.optim.Optimizer) -> None:
        self._number += 1
        if self._thread != get_ident() and not self._is_ours():
            return
        if graph_task() == -1:
            self._told(optimizer, "")
        else:
            self._wait_for_backward(optimizer)

    def _is_ours(self) -> bool:
        """Whether this is the thread that trains: the one whose optimizer stepped first."""
        if self._thread is None:
            self._thread = get_ident()
        return self._thread == get_ident()

    def _scaled(self, plain: Call) -> Call:
        """A gradient scaler that meets infinities leaves out the optimizer's step, but not the loop's."""

        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = self._number
            result = plain(scaler, optimizer, *args, **kwargs)
            if self._number == before and self._is_ours():
                self._told(optimizer, SKIPPED)
            return result

        return step

    def _wait_for_backward(self, optimizer: torch.optim.Optimizer) -> None:
        """Some optimizers step within backward, where nothing can be put on that would outlast it."""
        if self._waiting is None:
            self._waiting = []
            self._stack.enter_context(wrapped(torch.autograd, "backward", self._after_backward))
        self._waiting.append(optimizer)

    def _after_backward(self, plain: Call) -> Call:
        def backward(*args: Any, **kwargs: Any) -> Any:
            try:
                return plain(*args, **kwargs)
            finally:
                while self._waiting and graph_task() == -1:
                    self._told(self._waiting.pop(0), "")

        return backward
