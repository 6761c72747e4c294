"""Storages that autograd keeps for backward, by the row that first saved them."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from typing import Any

import torch
from torch import nn

from ..hooks import internals
from ..hooks.patches import Call, wrapped
from ..model.sites import Site
from ..model.tensors import flat, plain_tensors, tensors_in
from .live import ACTIVATIONS, Live


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
        self._excluded = list(exclude)
        """What is left out as soon as anything is saved at all; without gradients nothing is."""
        self._here: Any = None
        self._ours: set[Any] = set()
        """Our hooks that are on."""

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
            if tensor.grad_fn is None:
                for part in plain_tensors(tensor):
                    self._leave_out(part)

    def _leave_out(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = internals.storage_number(storage)
        if key not in self._seen:
            self._seen[key] = weakref.ref(storage, partial(self._seen.pop, key))

    def note(self, tensor: torch.Tensor, site: Site) -> None:
        """A tensor is being saved by `site`."""
        if self._excluded:
            self.leave_out(self._excluded)
            self._excluded = []
        for part in plain_tensors(tensor):
            if _is_parameter(part) or _is_parameter(tensor):
                self._leave_out(part)  # also one that was gathered for this forward and is not part of the model's own
            else:
                self._note(part, site)

    def _note(self, tensor: torch.Tensor, site: Site) -> None:
        storage = tensor.untyped_storage()
        key = internals.storage_number(storage)
        if key in self._seen:
            return
        size = storage.nbytes()
        self._seen[key] = weakref.ref(storage, partial(_end, self._seen, self._now, key, site, size))
        self._now[site] += size
        self._changed = True
        if self._live is not None:
            self._live.label(tensor, ACTIVATIONS)

    def perhaps_kept(self, tensor: torch.Tensor, site: Site) -> None:
        """A tensor inside a checkpoint, detached: if it outlives the forward, the checkpoint keeps it for backward.

        Selective checkpointing has a cache of its own, which the hooks for saved tensors do not see.
        """
        if internals.has_storage(tensor):
            self._kept.append((weakref.ref(tensor), site))
            self._changed = True

    def _packed_by(self, theirs: Call, tensor: torch.Tensor) -> Any:
        """Hand a tensor that is to be saved to other hooks: autograd keeps what they make of it.

        If they return a handle, they keep the tensor or a copy of it elsewhere: what outlives the forward counts.
        """
        site = self._here() if self._here is not None else None
        if site is None or internals.in_checkpoint():  # a checkpoint's hooks keep nothing
            return theirs(tensor)
        with _Made() as made:
            packed = theirs(tensor)
        for kept in tensors_in(packed) or [tensor, *made.tensors]:
            self.note(kept, site)
        return packed

    @contextmanager
    def watching(self, here: Any, *, below: bool = False) -> Iterator[None]:
        """Note what is saved inside the block; `here()` gives the row, or None while nothing should be noted.

        `below` puts our hooks under those that are on: a step of a loop may end before or after them.
        """
        self._here = here
        try:
            with self.on_top(below=below), self._within_hooks():
                yield
        finally:
            self._excluded = []
            self._here = None  # it would else keep the counter alive, with everything on its tape

    @property
    def covered(self) -> bool:
        """Whether other hooks are over ours, so that torch calls only those; a checkpoint's hooks keep nothing and do not count."""
        top = internals.top_saved_hooks()
        return top is not None and top[0] not in self._ours and not internals.in_checkpoint()

    @contextmanager
    def on_top(self, *, below: bool = False) -> Iterator[None]:
        """Have torch call our hooks for what is saved inside the block; ours call the hooks that they cover."""
        theirs = None if below else internals.top_saved_hooks()

        def pack(tensor: torch.Tensor) -> Any:
            if theirs is not None:
                return self._packed_by(theirs[0], tensor)
            site = self._here() if self._here is not None else None
            if site is not None:
                self.note(tensor, site)
            # A graph that holds its own output would never be freed unless its backward runs.
            return tensor if tensor.is_leaf else internals.detached(tensor)

        self._ours.add(pack)
        try:
            with (
                _beside_torch_func(pack),
                internals.saved_hooks(pack, _same if theirs is None else theirs[1], below=below),
            ):
                yield
        finally:
            self._ours.remove(pack)

    def _within_hooks(self) -> AbstractContextManager[None]:
        """Note what hooks keep that are entered inside the block: torch asks the topmost hooks only."""

        def noting(pack: Call, unpack: Call) -> internals.Hooks:
            return wraps(pack)(partial(self._packed_by, pack)), unpack

        return wrapped(torch.autograd.graph.saved_tensors_hooks, "__enter__", internals.entered_with(noting))


def _end(seen: dict[int, Any], now: Counter[Site], key: int, site: Site, size: int, _storage: object) -> None:
    """Forget a dead storage; takes the tables, because a reference to `Saved` would be a cycle for the garbage collector."""
    del seen[key]
    now[site] -= size


class _Made(internals.TorchDispatchMode):
    """Every tensor that is made inside the block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tensors: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        self.tensors += flat(output)
        return output


def _is_parameter(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a parameter or a view of one."""
    return isinstance(tensor, nn.Parameter) or isinstance(internals.viewed(tensor), nn.Parameter)


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _beside_torch_func(pack: Any) -> AbstractContextManager[None]:
    """Step aside for torch.func, which refuses to run under saved-tensor hooks."""

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
