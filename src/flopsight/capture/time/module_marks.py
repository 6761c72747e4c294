"""Times every module call by a mark at its begin and one at its end, light enough not to change what they measure."""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from ..hooks import internals
from ..hooks.patches import Call, compiling, module_calls
from ..model.sites import Site, Sites, sites_of


class Timer:
    """Keeps marks by thread: a moment and the row that was entered, or a moment and None when the last one was left."""

    def __init__(self, model: nn.Module | Sites, now: Callable[[], Any]) -> None:
        self.sites = sites_of(model)
        self.makers: list[tuple[int, Site]] = []
        """(number of the next autograd node, the row that will make it), on the thread that began."""
        self.again: Callable[[tuple[Site | None, bool, float]], None] | None = None
        """Called with the begin and the end of every module that a checkpoint runs again during backward."""
        self.at_entry: Callable[..., Any] | None = None
        """Makes a call from outside the model in our place, given the call without marks and with them."""
        self._now = now
        self._threads: dict[int, list[Any]] = {}
        self._thread = self._owner = 0
        # The current row is kept here and not in the wrapper's closure: wrappers are composed anew when another one comes or goes.
        self._here = [self.sites.outside]
        self._everywhere: dict[int, Site] = {}

    @contextmanager
    def running(self, *, sequences: bool = False, everywhere: bool = False) -> Iterator[None]:
        """Time the module calls inside the block: of this thread, or of every one that calls into the model."""
        self._thread, self._owner = threading.get_native_id(), threading.get_ident()
        watch = self._watch_everywhere if everywhere else self._watch_sequences if sequences else self._watch
        with module_calls(watch, bare=True):
            yield

    def _watch(self, plain: Call) -> Call:
        """The lightest wrapper: one thread, times only. Every line in it costs every module call."""
        now, single, find = self._now, self.sites.single_rows.get, self.sites.find
        mark = self._threads.setdefault(self._thread, []).append
        ident, thread, task = threading.get_ident, self._owner, internals.graph_task
        here, outside = self._here, self.sites.outside

        def timed(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if compiling() or ident() != thread or (here[0] is outside and task() != -1):
                return plain(module, *args, **kwargs)  # a checkpoint runs its forward again in backward
            caller = here[0]
            if caller is outside and self.at_entry is not None:
                return self.at_entry(plain, itself(), module, args, kwargs)
            here[0] = site = single(id(module)) or find(module, caller)
            mark(now())
            mark(site)
            try:
                return plain(module, *args, **kwargs)
            finally:
                mark(now())
                mark(None)
                here[0] = caller

        # A function that holds itself is freed by the garbage collector alone, and the model with it.
        itself = weakref.ref(timed)
        return timed

    def _watch_sequences(self, plain: Call) -> Call:
        """Also note the number of the next autograd node, from which backward finds the module of a node."""
        now, single, find = self._now, self.sites.single_rows.get, self.sites.find
        mark, make = self._threads.setdefault(self._thread, []).append, self.makers.append
        ident, thread, task, number = threading.get_ident, self._owner, internals.graph_task, internals.sequence_number
        here, outside = self._here, self.sites.outside

        def timed(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if compiling() or ident() != thread:
                return plain(module, *args, **kwargs)
            caller = here[0]
            site = single(id(module)) or find(module, caller)
            make((number(), site))
            if caller is outside and task() != -1:  # a checkpoint runs its forward again, in backward
                again = self.again or forget
                again((site, True, now()))
                try:
                    return plain(module, *args, **kwargs)
                finally:
                    again((site, False, now()))
                    make((number(), caller))
            here[0] = site
            mark(now())
            mark(site)
            try:
                return plain(module, *args, **kwargs)
            finally:
                mark(now())
                mark(None)
                here[0] = caller
                make((number(), caller))

        return timed

    def _watch_everywhere(self, plain: Call) -> Call:
        """Time every thread that calls into the model: backward recomputes checkpoints on threads of its own."""
        now, number, current = self._now, internals.sequence_number, self._everywhere

        def timed(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if compiling():
                return plain(module, *args, **kwargs)
            thread = threading.get_native_id()
            caller = current.get(thread, self.sites.outside)
            site = current[thread] = self.sites.find(module, caller)
            marks = self._threads.setdefault(thread, [])
            marks += (now(), site)
            if thread == self._thread:
                self.makers.append((number(), site))
            try:
                return plain(module, *args, **kwargs)
            finally:
                marks += (now(), None)
                current[thread] = caller
                if thread == self._thread:
                    self.makers.append((number(), caller))

        return timed

    def clear(self) -> None:
        """Forget what was marked so far, and go on."""
        for marks in self._threads.values():
            marks.clear()
        self.makers.clear()

    def marks(self) -> dict[int, list[tuple[int, str]]]:
        """By thread: from each moment on, the path of the row that ran."""
        found: dict[int, list[tuple[int, str]]] = {}
        for thread, marks in self._threads.items():
            running, log = [self.sites.outside], found.setdefault(thread, [])
            for at, site in _pairs(marks):
                running.append(site) if site is not None else running.pop()
                log.append((at, running[-1].path))
        return found

    def maker_paths(self) -> list[tuple[int, str]]:
        """From each autograd number on, the path of the row that made the node."""
        return [(number, site.path) for number, site in self.makers]

    def maker(self, number: int) -> Site:
        """The row that made the autograd node with a number."""
        i = bisect_right(self.makers, number, key=lambda made: made[0]) - 1
        return self.makers[i][1] if i >= 0 else self.sites.outside

    def calls(self) -> Iterator[tuple[int, Any, Any, str]]:
        """Every module call: thread, begin, end, path; a call within a call of the same module is left out."""
        for thread, marks in self._threads.items():
            open_calls: list[tuple[Any, Site]] = []
            for at, site in _pairs(marks):
                if site is not None:
                    open_calls.append((at, site))
                    continue
                begin, left = open_calls.pop()
                if all(outer is not left for _, outer in open_calls):
                    yield thread, begin, at, left.path

    def entered(self) -> Counter[str]:
        """How often each path was called on the thread that began."""
        return Counter(site.path for _, site in _pairs(self._threads.get(self._thread, [])) if site is not None)

    def sums(self, seconds: Callable[[Any, Any], float] = lambda begin, end: end - begin) -> dict[str, float]:
        """Seconds by path on the thread that began, submodules included."""
        totals: dict[str, float] = {}
        for thread, begin, end, path in self.calls():
            if thread == self._thread:
                totals[path] = totals.get(path, 0.0) + seconds(begin, end)
        return totals


def forget(_entry: object) -> None:
    """Do nothing: the callback if none was given."""


def _pairs(marks: list[Any]) -> Iterator[tuple[Any, Site | None]]:
    return zip(marks[::2], marks[1::2], strict=False)  # a last mark may be half made when another thread looks
