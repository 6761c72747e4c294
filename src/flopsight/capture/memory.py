"""Who keeps memory: storages saved for backward, and everything alive, each storage once."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from . import internals
from .metas import flat
from .scope import Site


class Saved:
    """Bytes that autograd keeps for backward, by the row that first saved them.

    Storages and not tensors are counted: naive sums over saved tensors were up to half too high.
    """

    def __init__(self, exclude: Iterable[torch.Tensor]) -> None:
        self.bytes: Counter[Site] = Counter()
        self._seen = _keys(exclude)

    def note(self, tensor: torch.Tensor, site: Site) -> None:
        """A tensor is being saved by `site`."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._seen:
            return
        self._seen.add(key)
        # The key is an address: it names another storage once this one is gone.
        weakref.finalize(storage, self._seen.discard, key).atexit = False
        self.bytes[site] += storage.nbytes()

    @contextmanager
    def watching(self, here: Any) -> Iterator[None]:
        """Note what is saved inside the block; `here()` gives the row, or None while nothing should be noted."""

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            site = here()
            if site is not None and not internals.is_wrapper_subclass(tensor):
                self.note(tensor, site)
            return tensor

        with saved_tensors_hooks(pack, _same):
            yield


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


class Live:
    """Every storage that ops make, from its birth to its end: what was alive at the peak, and whose it was."""

    def __init__(self, exclude: Iterable[torch.Tensor]) -> None:
        self.current = 0
        self._tracked = _keys(exclude)
        self._events: list[tuple[Site, int]] = []

    def note(self, output: Any, site: Site) -> None:
        """An op of `site` returned this."""
        for tensor in flat(output):
            if internals.is_wrapper_subclass(tensor) or tensor.layout is not torch.strided:
                continue
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self._tracked:
                continue
            size = storage.nbytes()
            if size:
                self._tracked.add(key)
                self.current += size
                self._events.append((site, size))
                weakref.finalize(storage, self._end, key, site, size).atexit = False

    def _end(self, key: int, site: Site, size: int) -> None:
        self._tracked.discard(key)
        self.current -= size
        self._events.append((site, -size))

    def peak(self) -> tuple[int, dict[Site, int]]:
        """Most bytes alive at once, and whose they were."""
        now = highest = at = 0
        for i, (_, change) in enumerate(self._events):
            now += change
            if now > highest:
                highest, at = now, i + 1
        alive: Counter[Site] = Counter()
        for site, change in self._events[:at]:
            alive[site] += change
        return highest, {site: size for site, size in alive.items() if size}


def _keys(tensors: Iterable[torch.Tensor]) -> set[int]:
    return {
        internals.storage_key(tensor)
        for tensor in tensors
        if not internals.is_wrapper_subclass(tensor) and tensor.layout is torch.strided
    }
