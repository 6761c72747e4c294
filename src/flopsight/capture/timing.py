"""Where the time goes: clock marks around every module call, light enough not to change what they measure."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from .clock import Clock
from .scope import Call, Site, Sites, module_calls


class Timer:
    """Host seconds by row: own and with submodules, summed over the calls of one pass."""

    def __init__(self, model: nn.Module, clock: Clock) -> None:
        self.sites = Sites(model)
        self._clock = clock
        self._thread = 0
        self._marks: list[tuple[Site, float, float]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time every module call of this thread inside the block."""
        self._thread = threading.get_ident()
        with module_calls(self._watch):
            yield

    def sums(self) -> dict[str, float]:
        """Seconds by path, submodules included."""
        totals: dict[str, float] = {}
        for site, begin, end in self._marks:
            totals[site.path] = totals.get(site.path, 0.0) + end - begin
        return totals

    def _watch(self, plain: Call) -> Call:
        now, mark, find, thread = self._clock.now, self._marks.append, self.sites.find, self._thread
        ident = threading.get_ident
        current = self.sites.outside
        running: set[Site] = set()

        def timed(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            nonlocal current
            if ident() != thread:
                return plain(module, *args, **kwargs)
            caller = current
            current = site = find(module, caller)
            outer = site not in running  # in a module that calls itself, the outer call's time holds the inner's
            running.add(site)
            begin = now()
            try:
                return plain(module, *args, **kwargs)
            finally:
                if outer:
                    mark((site, begin, now()))
                    running.discard(site)
                current = caller

        return timed
