"""Every storage that is alive while a model runs: what it is, whose it is, and the peak of them all."""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from ..hooks import internals
from ..model.sites import Site
from ..model.tensors import flat, plain_tensors
from .footprint import Footprint, History, footprint

LAZY = (UninitializedParameter, UninitializedBuffer)
PARAMETERS, BUFFERS, INPUTS = "parameters", "buffers", "inputs"
ACTIVATIONS, GRADIENTS, OPTIMIZER_STATE = "activations", "gradients", "optimizer"
RECOMPUTED, TEMPORARIES = "recomputed", "temporaries"
GATHERED, BUCKETS = "gathered", "buckets"
"""Whole weights that a rank has for a while; buffers in which gradients are averaged."""
LASTING = (OPTIMIZER_STATE, BUCKETS)
"""What the first step makes and every later step has from its beginning."""


def held_by(modules: Iterable[nn.Module]) -> dict[str, list[torch.Tensor]]:
    """The tensors that modules themselves hold, by what they are; lazy ones do not exist yet."""
    parameters: list[Any] = []
    buffers: list[Any] = []
    for module in modules:
        parameters += module._parameters.values()
        buffers += module._buffers.values()
    held = {PARAMETERS: parameters, BUFFERS: buffers}
    return {what: [t for t in found if t is not None and type(t) not in LAZY] for what, found in held.items()}


class Live:
    """Every storage from its birth to its end: what was alive at the peak, and whose it was."""

    def __init__(self, there: Mapping[str, Iterable[torch.Tensor]]) -> None:
        self.current = 0
        """Bytes alive now, of those that ops made."""
        self.grown: Counter[Site] = Counter()
        """By row: bytes that were alive after its calls and not before."""
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
        self.lent: dict[int, tuple[int, int]] = {}
        """Storages that a collective of the CPU holds: the thread that began it, and how many events there were at their last use."""
        self._late: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """Frees that another thread reported late, by the number of the event that they precede."""
        self._forgotten: set[int] = set()
        self._expected: Counter[str] = Counter()
        self.leave_out(there)

    def expect(self, what: str, size: int) -> None:
        """Add `size` bytes of kind `what` to the baseline, even if no op ever touches the tensors."""
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
        """An op of `site` returned this; `what` it is, if that is known already."""
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

    def lend(self, args: Any) -> None:
        """A collective begins to work with these tensors.

        Gloo's threads let go of them some time after the collective is done. If such a thread is the last to hold
        one, its memory counts up to its last use on the thread that began the collective: the rest is chance.
        """
        for tensor in flat(args):
            birth = self.birth_of(tensor) if isinstance(tensor, torch.Tensor) and tensor.is_cpu else None
            if birth is not None:
                self.lent[birth] = get_ident(), len(self._events)

    def use(self, args: Any) -> None:
        """An op used these tensors; those that a collective still holds were needed up to now."""
        for tensor in flat(args):
            birth = self.birth_of(tensor) if isinstance(tensor, torch.Tensor) else None
            if birth in self.lent:
                self.lent[birth] = self.lent[birth][0], len(self._events)

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
        change = size - self.size(birth)
        if change:
            self._sizes[birth] = size
            self._events.append((birth, change))
            self.current += change if self._births[birth][0] is not None else 0

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
        self._alive[key] = birth, weakref.ref(storage, partial(_end, weakref.ref(self), key, birth))
        return birth

    def end(self, key: int, birth: int) -> None:
        """A storage is dead."""
        del self._alive[key]
        size = self.size(birth)
        thread, number = self.lent.pop(birth, (get_ident(), 0))
        events = self._events if thread == get_ident() else self._late[number]
        events.append((birth, -size))
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

    def forget(self, *tensors: torch.Tensor) -> None:
        """Exclude tensors from the peak: a library's bookkeeping, or what is in other memory."""
        births = (self.birth_of(part) for tensor in tensors for part in plain_tensors(tensor))
        self._forgotten.update(birth for birth in births if birth is not None)

    def birth_of(self, tensor: torch.Tensor) -> int | None:
        """The number of a tensor's storage, which no other storage of the run has; None if it was never met."""
        known = self._alive.get(internals.storage_key(tensor)) if internals.has_storage(tensor) else None
        return known[0] if known is not None else None

    def kind(self, birth: int) -> str:
        """What a storage is, as far as that is known by now."""
        return self._labels.get(birth, TEMPORARIES)

    def size(self, birth: int) -> int:
        """Bytes of a storage."""
        return self._sizes.get(birth, self._births[birth][1])

    def footprint(self) -> Footprint:
        """Most bytes alive at once, what they were and whose, and the curve of the step.

        The first step of an optimizer makes its state when the activations are gone, every later one has it from the
        beginning. That is the peak that matters, so the state is there from the beginning here too.
        """
        state = {birth for birth, what in self._labels.items() if what in LASTING}
        events: list[tuple[int, int]] = []
        phases: dict[int, str] = {}
        for number, event in enumerate(self._events):
            if number in self._phases:
                phases[len(events)] = self._phases[number]
            for birth, change in (*self._late.get(number, ()), event):
                if birth not in self._forgotten and (change < 0 or birth not in state):
                    events.append((birth, change))
        births = len(self._births)
        unseen = self._expected - self._bytes_by_kind(state)
        return footprint(
            History(
                before=[
                    *((birth, self._births[birth][1]) for birth in {*self._before, *state} - self._forgotten),
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


def _end(live: weakref.ref[Live], key: int, birth: int, _storage: object) -> None:
    """A storage is dead; it may outlive `Live`, which it does not hold, so that no garbage has to be collected."""
    found = live()
    if found is not None:
        found.end(key, birth)
