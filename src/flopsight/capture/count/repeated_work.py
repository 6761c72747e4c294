"""Work that is done again: the same op on the same values, found without reading them, as compilers find common expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import torch

from .live import Live
from .opinfo import OpInfo, values_by_name
from .used_storages import Use, written

Value = tuple[Any, ...]


class Repeats:
    """Gives what every storage holds a number: equal ops on equal numbers write equal numbers.

    What was there before the run, and what a random op wrote, has a number of its own. A tensor that no op made and that is no
    part of the model or its inputs has none, and no op on it counts as a repeat.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        self._values: dict[int, Value] = {}
        """By storage, as `Live` numbers them, what the last op left there."""
        self._calls: dict[Any, int] = {}
        """The calls that ran, each with the number of its result."""
        self._fresh = count()
        self._read: set[int] = set()
        """Storages that an op of the forward took."""

    def note(self, info: OpInfo, call: Any, args: Any, kwargs: Mapping[str, Any], use: Use) -> bool:
        """An op ran, `call` being its arguments without their data; True if the same op ran on the same values before."""
        given = self._given(use)
        if not _determined(info, args, kwargs):
            given = None
        key = None if given is None else (info, call, given)
        repeated = key is not None and key in self._calls
        number: Any = next(self._fresh) if key is None else self._calls.setdefault(key, len(self._calls))
        for place, storage in enumerate(use.left):
            if storage is not None:
                self._values[storage] = (key is None, number, place)
        return repeated

    def note_writes(self, info: OpInfo, args: Any, kwargs: Mapping[str, Any]) -> None:
        """An op ran outside of forward: what it wrote into holds something else now."""
        for tensor in written(info, args, kwargs):
            storage = self._live.birth_of(tensor)
            if storage is not None:
                self._values[storage] = (True, next(self._fresh), 0)

    def _given(self, use: Use) -> tuple[Value, ...] | None:
        """What the inputs hold, and where in their storages they begin; None if that is not known of one."""
        found: list[Value] | None = []
        for tensor, storage in use.taken:
            if storage is None:
                found = None
                continue
            self._read.add(storage)
            if found is not None:
                found.append((self._values.get(storage, (storage,)), tensor.storage_offset()))
        return None if found is None else tuple(found)

    def unread(self, tensors: Iterable[torch.Tensor]) -> set[int]:
        """The ids of those that no op of the forward took, themselves or a view of them."""
        storages = ((tensor, self._live.birth_of(tensor)) for tensor in tensors)
        return {id(tensor) for tensor, storage in storages if storage is not None and storage not in self._read}


def _determined(info: OpInfo, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether equal inputs give equal results: torch's own ops, unless they draw random numbers."""
    if not info.name.startswith("aten."):
        return False
    if not info.seeded:
        return True
    named = info.defaults | values_by_name(info, args, kwargs)
    return named.get("dropout_p") == 0 or named.get("p") == 0
