"""Memory by row: storages saved for backward, and all storages alive, each counted once."""

from __future__ import annotations

import re
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
from .footprint import Footprint, History, footprint


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
        self._ours: list[Any] = []

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
            self._seen[key] = weakref.ref(storage, partial(self._forget, key))

    def note(self, tensor: torch.Tensor, site: Site) -> None:
        """A tensor is being saved by `site`."""
        if self._excluded:
            self.leave_out(self._excluded)
            self._excluded = []
        for part in plain_tensors(tensor):
            if _is_parameter(part) or _is_parameter(tensor):
                self._leave_out(part)  # also one that was gathered for this forward and is no part of the model's own
            else:
                self._note(part, site)

    def _note(self, tensor: torch.Tensor, site: Site) -> None:
        storage = tensor.untyped_storage()
        key = internals.storage_number(storage)
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

    def _note_packed(self, tensor: torch.Tensor, packed: Any) -> None:
        """Hooks were handed a tensor to be saved, and autograd keeps what they made of it.

        Where they keep it elsewhere and return a handle, the tensor itself is noted: it counts if it outlives the forward.
        """
        site = self._here() if self._here is not None else None
        if site is None or internals.in_checkpoint():  # a checkpoint's hooks keep nothing
            return
        for kept in tensors_in(packed) or [tensor]:
            self.note(kept, site)

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
            self._excluded, self._here = (
                [],
                None,
            )  # `here` would else keep the counter alive, with everything on its tape

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
                packed = theirs[0](tensor)
                self._note_packed(tensor, packed)
                return packed
            site = self._here() if self._here is not None else None
            if site is not None:
                self.note(tensor, site)
            # A graph that holds its own output would never be freed unless its backward runs.
            return tensor if tensor.is_leaf else internals.detached(tensor)

        self._ours.append(pack)
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

        def noting(enter: Call) -> Call:
            def entered(hooks: Any) -> Any:
                theirs = hooks.pack_hook

                @wraps(theirs)
                def pack(tensor: torch.Tensor) -> Any:
                    packed = theirs(tensor)
                    self._note_packed(tensor, packed)
                    return packed

                hooks.pack_hook = pack
                try:
                    return enter(hooks)
                finally:
                    hooks.pack_hook = theirs

            return entered

        return wrapped(torch.autograd.graph.saved_tensors_hooks, "__enter__", noting)


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


PARAMETERS, BUFFERS, INPUTS = "parameters", "buffers", "inputs"
ACTIVATIONS, GRADIENTS, OPTIMIZER_STATE = "activations", "gradients", "optimizer"
RECOMPUTED, TEMPORARIES = "recomputed", "temporaries"
GATHERED, BUCKETS = "gathered", "buckets"
"""Whole weights that a rank has for a while; buffers in which gradients are averaged."""
LASTING = (OPTIMIZER_STATE, BUCKETS)
"""What the first step makes and every later step has from its beginning."""


def failed_allocation(problem: BaseException) -> str:
    """The allocation that failed, from torch's out-of-memory message; empty for any other exception."""
    found = re.search(r"tried to allocate ([\d.]+ ?\w+)", str(problem), re.IGNORECASE)
    return found[1] if found else ""


def held_by(*models: nn.Module) -> dict[str, list[torch.Tensor]]:
    """The tensors of models, by what they are."""
    return {
        PARAMETERS: [p for model in models for p in model.parameters() if not nn.parameter.is_lazy(p)],
        BUFFERS: [b for model in models for b in model.buffers() if not nn.parameter.is_lazy(b)],
    }


class Live:
    """Every storage from its birth to its end: what was alive at the peak, and whose it was."""

    def __init__(self, there: Mapping[str, Iterable[torch.Tensor]]) -> None:
        self.current = 0
        """Bytes alive now, of those that ops made."""
        self._alive: dict[int, tuple[int, Any]] = {}
        """By address, which means another storage when this one is dead."""
        self._births: list[tuple[Site | None, int]] = []
        self._labels: dict[int, str] = {}
        self._before: list[int] = []
        self._sizes: dict[int, int] = {}
        """Sizes of storages that changed theirs."""
        self._events: list[tuple[int, int]] = []
        self._phase = ""
        self._phases: dict[int, str] = {}
        """The phase that begins with an event, by the event's number."""
        self._forgotten: set[int] = set()
        self._expected: Counter[str] = Counter()
        self.leave_out(there)

    def expect(self, what: str, size: int) -> None:
        """So many bytes of a kind are there from the beginning, seen or not: their tensors may be used by no op."""
        self._expected[what] += size

    def leave_out(self, there: Mapping[str, Iterable[torch.Tensor]]) -> None:
        """Tensors that were there before, by what they are."""
        for what, tensors in there.items():
            for part in (part for tensor in tensors for part in plain_tensors(tensor)):
                birth = self._bear(part, None)
                if birth is not None:
                    self._before.append(birth)
                else:
                    birth = self.birth_of(part)
                if birth is not None:
                    self._labels.setdefault(birth, what)

    def note(self, output: Any, site: Site, phase: str, what: str | None = None) -> None:
        """An op of `site` returned this; `what` it is, where that is known already."""
        for tensor in (output,) if isinstance(output, torch.Tensor) else flat(output):
            birth = self._bear(tensor, site)
            if birth is not None:
                size = self._births[birth][1]
                if phase is not self._phase:
                    self._phase = self._phases[len(self._events)] = phase
                self._events.append((birth, size))
                self.current += size
                if what is not None:
                    self._labels[birth] = what

    def gathered(self, tensors: Iterable[torch.Tensor], site: Site) -> None:
        """These weights are here as a whole now."""
        for tensor in tensors:
            self.note(tensor, site, self._phase)
            self.label(tensor, GATHERED)

    def resized(self, storage: torch.UntypedStorage, gatherer: Site | None) -> None:
        """A storage was given memory, or gave it back, without an op; `gatherer` is the row whose weights come into it."""
        known = self._alive.get(internals.storage_number(storage))
        if known is None:
            birth = self._bear_storage(storage, gatherer) if gatherer is not None else None
            if birth is not None:
                self._events.append((birth, self._births[birth][1]))
                self.current += self._births[birth][1]
                self._labels[birth] = GATHERED
            return
        birth, size = known[0], storage.nbytes()
        change = size - self._size(birth)
        if change:
            self._sizes[birth] = size
            self._events.append((birth, change))
            self.current += change if self._births[birth][0] is not None else 0

    def _size(self, birth: int) -> int:
        return self._sizes.get(birth, self._births[birth][1])

    def _bear(self, tensor: torch.Tensor, site: Site | None) -> int | None:
        if not internals.has_storage(tensor):
            return None
        return self._bear_storage(tensor.untyped_storage(), site)

    def _bear_storage(self, storage: torch.UntypedStorage, site: Site | None) -> int | None:
        key = internals.storage_number(storage)
        if key in self._alive:
            return None
        size = storage.nbytes()
        if not size:
            return None
        birth = len(self._births)
        self._births.append((site, size))
        self._alive[key] = birth, weakref.ref(storage, partial(self._end, key, birth))
        return birth

    def _end(self, key: int, birth: int, _reference: object) -> None:
        del self._alive[key]
        size = self._size(birth)
        self._events.append((birth, -size))
        if self._births[birth][0] is not None:
            self.current -= size

    def label(self, tensor: torch.Tensor, what: str) -> None:
        """Say what a tensor is: an activation, a gradient, a state of the optimizer."""
        for part in plain_tensors(tensor):
            birth = self.birth_of(part)
            if birth is None:
                continue
            if what == BUCKETS:
                self._labels.setdefault(birth, what)
            elif self._labels.get(birth) != BUCKETS:  # a gradient may be a view of its bucket
                self._labels[birth] = what

    def forget(self, tensor: torch.Tensor) -> None:
        """Leave a tensor out of the peak: a library has it for its own books."""
        birth = self.birth_of(tensor)
        if birth is not None:
            self._forgotten.add(birth)

    def birth_of(self, tensor: torch.Tensor) -> int | None:
        """The number of a tensor's storage, which no other storage of the run has; None where it was never met."""
        known = self._alive.get(internals.storage_key(tensor)) if internals.has_storage(tensor) else None
        return known[0] if known is not None else None

    def footprint(self) -> Footprint:
        """Most bytes alive at once, what they were and whose, and the curve of the step.

        The first step of an optimizer makes its state when the activations are gone, every later one has it from the
        beginning. That is the peak that matters, so the state is there from the beginning here too.
        """
        state = {birth for birth, what in self._labels.items() if what in LASTING}
        events: list[tuple[int, int]] = []
        phases: dict[int, str] = {}
        for number, (birth, change) in enumerate(self._events):
            if number in self._phases:
                phases[len(events)] = self._phases[number]
            if birth not in self._forgotten and (change < 0 or birth not in state):
                events.append((birth, change))
        births = len(self._births)
        unseen = self._expected - self._bytes_by_kind(state)
        return footprint(
            History(
                before=[
                    *((birth, self._births[birth][1]) for birth in {*self._before, *state}),
                    *enumerate(unseen.values(), births),
                ],
                events=events,
                kind=[*(self._labels.get(birth, TEMPORARIES) for birth in range(births)), *unseen],
                maker=[
                    *(None if birth in state else site for birth, (site, _) in enumerate(self._births)),
                    *(None for _ in unseen),
                ],
                phases=phases,
            )
        )

    def _bytes_by_kind(self, births: Iterable[int]) -> Counter[str]:
        found: Counter[str] = Counter()
        for birth in births:
            found[self._labels[birth]] += self._births[birth][1]
        return found
