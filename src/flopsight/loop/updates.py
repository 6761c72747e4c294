"""Calls back after every optimizer update of the training thread, also after those that a gradient scaler skipped."""

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
OnUpdate = Callable[[torch.optim.Optimizer, str], None]


class Updates:
    """Calls `on_update(optimizer, "")` after an update, or with the reason why the scaler skipped it."""

    def __init__(self, on_update: OnUpdate, trains: Callable[[torch.optim.Optimizer], bool] = lambda _: True) -> None:
        """`trains` tells the optimizers of the loop from those of other threads."""
        self._on_update, self._trains = on_update, trains
        self._stack = ExitStack()
        self._thread: int | None = None
        self._number = 0
        self._waiting: list[torch.optim.Optimizer] | None = None

    def watch(self) -> None:
        """Start watching optimizers and gradient scalers."""
        self._stack.enter_context(after_optimizer_steps(self._stepped))
        self._stack.enter_context(wrapped(torch.amp.GradScaler, "step", self._scaled))

    def end(self) -> None:
        """Remove our wrappers and hooks; hooks that torch is running now go when this is called again."""
        self._stack.close()
        let_go()

    def _stepped(self, optimizer: torch.optim.Optimizer) -> None:
        self._number += 1
        if self._thread != get_ident() and not self._is_training_thread(optimizer):
            return
        if graph_task() == -1:
            self._on_update(optimizer, "")
        else:
            self._wait_for_backward(optimizer)

    def _is_training_thread(self, optimizer: torch.optim.Optimizer) -> bool:
        """True on the training thread: the one on which an optimizer of the loop stepped first."""
        if self._thread is None and self._trains(optimizer):
            self._thread = get_ident()
        return self._thread == get_ident()

    def _scaled(self, plain: Call) -> Call:
        """Count the step of a gradient scaler that found infinities: it skips the optimizer's step, not the loop's."""

        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = self._number
            result = plain(scaler, optimizer, *args, **kwargs)
            if self._number == before and self._is_training_thread(optimizer):
                self._on_update(optimizer, SKIPPED)
            return result

        return step

    def _wait_for_backward(self, optimizer: torch.optim.Optimizer) -> None:
        """Report an optimizer that steps within backward after that backward: what we attach inside would end with it."""
        if self._waiting is None:
            self._waiting = []
            self._stack.enter_context(wrapped(torch.autograd, "backward", self._after_backward))
        self._waiting.append(optimizer)

    def _after_backward(self, plain: Call) -> Call:
        def backward(*args: Any, **kwargs: Any) -> Any:
            try:
                return plain(*args, **kwargs)
            finally:
                self.backward_ended()

        return backward

    def backward_ended(self) -> None:
        """Report what stepped within a backward, now that it is over."""
        while self._waiting and graph_task() == -1:
            self._on_update(self._waiting.pop(0), "")
