"""Finds the model of a script at its first call, and counts its forwards from then on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from weakref import ref

import torch
from torch import nn

from ..capture.hooks import internals
from ..capture.hooks.patches import Call, calls_of, inside, module_calls, unpatched, wrapped
from ..capture.model.wrappers import compiled_from

Around = Callable[[Callable[[], Any]], Any]


class ModelFinder:
    """Waits for the first call of a model, then wraps the calls of that one alone.

    The search costs a little at every module call; once the model is found, only calls of its class are wrapped.
    The search ends before the model runs, so that torch.compile sees torch's own `__call__`.
    """

    def __init__(self, admits: Callable[[nn.Module], bool], around: Around) -> None:
        self.name = ""
        """The class of the model, once it is found."""
        self.passed_by: dict[str, None] = {}
        """Classes of outermost modules that were called and not admitted; a dict, to keep their order."""
        self._admits = admits
        self._around = around
        self._stack = ExitStack()
        self._thread = 0
        self._inside = False
        self._model: ref[nn.Module] | None = None  # weak, so that the script can free its model

    def watch(self) -> None:
        """Start looking for the model."""
        self._thread = threading.get_ident()
        self._stack.enter_context(module_calls(self._find))
        # torch.compile binds the call that it finds in `nn.Module.__call__` at that moment
        self._stack.enter_context(wrapped(torch, "compile", inside(unpatched)))

    def end(self) -> None:
        """Remove our wrappers."""
        self._stack.close()

    def _find(self, plain: Call) -> Call:
        def searching(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._inside or self._model is not None or threading.get_ident() != self._thread:
                return plain(module, *args, **kwargs)
            if not self._admits(compiled_from(module)):
                self.passed_by.setdefault(type(module).__name__)
                return plain(module, *args, **kwargs)
            self._model, self.name = ref(module), type(compiled_from(module)).__name__
            self._stack.close()
            self._stack.enter_context(calls_of(type(module), self._count))
            # not `module(...)`: a `__call__` of the script's own, or one that it put over torch's, is already running
            return self._count(plain)(module, *args, **kwargs)

        return searching

    def _count(self, plain: Call) -> Call:
        def counted(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            found = self._model
            if self._inside or found is None or found() is not module or internals.graph_task() != -1:
                return plain(module, *args, **kwargs)
            self._inside = True
            try:
                return self._around(lambda: plain(module, *args, **kwargs))
            finally:
                self._inside = False

        return counted
