"""Who keeps memory: storages saved for backward, and everything alive, each storage once."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from . import internals
from .metas import flat
from .scope import Call, Site, wrapped


class Saved:
    """Bytes that autograd keeps for backward, by the row that first saved them.

    Storages and not tensors are counted: naive sums over saved tensors were up to half too high. What dies before
    backward begins was not kept for it.
    """

    def __init__(self, exclude: Iterable[torch.Tensor], live: Live | None = None) -> None:
        self._now: Counter[Site] = Counter()
        self._most: Counter[Site] = Counter()
        self._seen: dict[int, Any] = {}
        """Storages that are counted or left out. The key is an address: it means another one when its storage dies."""
        self._kept: list[tuple[weakref.ref[torch.Tensor], Site]] = []
        self._changed = False
        self._live = live
        self.leave_out(exclude)

    @property
    def bytes(self) -> Counter[Site]:
        """When most was kept at the end of a forward."""
        self.settle()
        return self._most

    def settle(self) -> None:
        """A forward is over, or backward begins: what is kept now is what was saved."""
        if not self._changed:
            return
        for reference, site in self._kept:
            tensor = reference()
            if tensor is not None:
                self.note(tensor, site)
        self._kept.clear()
        self._changed = False
        self._raise(self._now)

    def add(self, other: Mapping[Site, int]) -> None:
        """What another pass over the same model saved: it is gone when the next one begins."""
        self._raise(other)

    def _raise(self, other: Mapping[Site, int]) -> None:
        if sum(other.values()) > self._most.total():
            self._most = +Counter(other)

    def leave_out(self, tensors: Iterable[torch.Tensor]) -> None:
        """Inputs of a model are not its activations, unless something trainable made them."""
        for tensor in tensors:
            if tensor.grad_fn is None and internals.has_storage(tensor):
                storage = tensor.untyped_storage()
                key = storage._cdata
                if key not in self._seen:
                    self._seen[key] = weakref.ref(storage, partial(self._forget, key))

    def note(self, tensor: torch.Tensor, site: Site) -> None:
        """A tensor is being saved by `site`."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._seen:
            return
        size = storage.nbytes()
        self._seen[key] = weakref.ref(storage, partial(self._end, key, site, size))
        self._now[site] += size
        self._changed = True
        if self._live is not None:
            self._live.label(tensor, ACTIVATIONS)

    def _end(self, key: int, site: Site, size: int, _reference: object) -> None:
        del self._seen[key]
        self._now[site] -= size

    def _forget(self, key: int, _reference: object) -> None:
        del self._seen[key]

    def perhaps_kept(self, tensor: torch.Tensor, site: Site) -> None:
        """A tensor inside a checkpoint, detached: if it outlives the forward, the checkpoint keeps it for backward.

        Selective checkpointing has a cache of its own, which the hooks for saved tensors do not see.
        """
        if internals.has_storage(tensor):
            self._kept.append((weakref.ref(tensor), site))
            self._changed = True

    @contextmanager
    def watching(self, here: Any) -> Iterator[None]:
        """Note what is saved inside the block; `here()` gives the row, or None while nothing should be noted."""

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            site = here()
            if site is not None and internals.has_storage(tensor):
                self.note(tensor, site)
            # A graph that holds its own output would never be freed unless its backward runs.
            return tensor if tensor.is_leaf else internals.detached(tensor)

        with _beside_torch_func(pack), saved_tensors_hooks(pack, _same):
            yield


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _beside_torch_func(pack: Any) -> AbstractContextManager[None]:
    """Step aside for torch.func, which refuses to run under anybody's saved-tensor hooks."""

    def stepping_aside(refuse: Call) -> Call:
        @contextmanager
        def aside(message: str) -> Iterator[None]:
            ours = internals.top_saved_hooks()
            if ours is None or ours[0] is not pack:
                with refuse(message):
                    yield
                return
            with internals.popped_saved_hooks(), refuse(message):
                yield

        return aside

    return wrapped(torch.autograd.graph, "disable_saved_tensors_hooks", stepping_aside)


ACTIVATIONS, GRADIENTS, OPTIMIZER_STATE, TEMPORARIES = "activations", "gradients", "optimizer", "temporaries"


class Live:
    """Every storage that ops make, from its birth to its end: what was alive at the peak, and whose it was."""

    def __init__(self, exclude: Iterable[torch.Tensor]) -> None:
        self.current = 0
        self.base = 0
        """Bytes that were there before: parameters, buffers, inputs."""
        self._alive: dict[int, int] = {}
        self._births: list[tuple[Site, int]] = []
        self._labels: dict[int, str] = {}
        self._events: list[tuple[int, int]] = []
        self.leave_out(exclude)

    def leave_out(self, tensors: Iterable[torch.Tensor]) -> None:
        """Tensors that were there before."""
        for tensor in tensors:
            if internals.has_storage(tensor) and (key := internals.storage_key(tensor)) not in self._alive:
                self._alive[key] = -1
                self.base += tensor.untyped_storage().nbytes()

    def note(self, output: Any, site: Site) -> None:
        """An op of `site` returned this."""
        for tensor in flat(output):
            if not internals.has_storage(tensor):
                continue
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self._alive:
                continue
            size = storage.nbytes()
            if size:
                birth = self._alive[key] = len(self._births)
                self._births.append((site, size))
                self._events.append((birth, size))
                self.current += size
                weakref.finalize(storage, self._end, key, birth, size).atexit = False

    def _end(self, key: int, birth: int, size: int) -> None:
        del self._alive[key]
        self.current -= size
        self._events.append((birth, -size))

    def label(self, tensor: torch.Tensor, what: str) -> None:
        """Say what a tensor is: an activation, a gradient, a state of the optimizer."""
        birth = self._alive.get(internals.storage_key(tensor), -1) if internals.has_storage(tensor) else -1
        if birth >= 0:
            self._labels[birth] = what

    def peak(self) -> tuple[int, dict[str, int], dict[Site, int]]:
        """Most bytes alive at once; what they were, and whose."""
        now = highest = at = 0
        for i, (_, change) in enumerate(self._events):
            now += change
            if now > highest:
                highest, at = now, i + 1
        kinds: Counter[str] = Counter()
        rows: Counter[Site] = Counter()
        for birth, change in self._events[:at]:
            kinds[self._labels.get(birth, TEMPORARIES)] += change
            rows[self._births[birth][0]] += change
        return self.base + highest, {k: n for k, n in kinds.items() if n}, {s: n for s, n in rows.items() if n}
