"""Which rows the ops of an optimizer step belong to: their tensors belong to parameters, which have rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..hooks import internals
from ..model.sites import Site, Sites
from ..model.tensors import flat, raw

Part = tuple[Site, tuple[Any, ...], tuple[Any, ...], Any]


class Ownership:
    """The rows that the tensors of one optimizer step belong to; results belong to the row of their operands.

    Storages are compared and not tensors: an optimizer works on views, and a sharded parameter is a wrapper.
    """

    def __init__(self, sites: Sites, optimizer: torch.optim.Optimizer) -> None:
        self._outside = sites.outside
        self._rows: dict[int, Site] = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                row = sites.owners.get(id(parameter))
                if row is not None:
                    state = optimizer.state.get(parameter, {})
                    for tensor in flat([parameter, parameter.grad, state]):
                        self._rows[_key(tensor)] = row

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Iterator[Part]:
        """One call as one part a row: an op over lists of tensors works on many parameters at once."""
        lists = [value for value in args if isinstance(value, list | tuple) and value and _tensors(value)]
        if not lists:
            row = self._row_of(flat((args, kwargs)))
            for tensor in flat(output):
                self._rows[_key(tensor)] = row
            yield row, tuple(map(raw, args)), tuple((name, raw(value)) for name, value in kwargs.items()), raw(output)
            return
        length = len(lists[0])
        rows = [self._row_of(values[i] for values in lists if i < len(values)) for i in range(length)]
        if isinstance(output, list | tuple) and len(output) == length:
            for tensor, row in zip(output, rows, strict=True):
                self._rows[_key(tensor)] = row
        for row in dict.fromkeys(rows):
            chosen = [i for i in range(length) if rows[i] is row]

            def part(value: Any, chosen: list[int] = chosen) -> Any:
                if isinstance(value, list | tuple) and len(value) == length:
                    return raw(tuple(value[i] for i in chosen))
                return raw(value)

            yield row, tuple(map(part, args)), tuple((name, part(v)) for name, v in kwargs.items()), part(output)

    def _row_of(self, tensors: Iterable[torch.Tensor]) -> Site:
        """The row of the first tensor that has one."""
        found = (self._rows.get(_key(tensor)) for tensor in tensors)
        return next((row for row in found if row is not None), self._outside)


def _key(tensor: torch.Tensor) -> int:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return internals.storage_key(local) if internals.has_storage(local) else id(local)


def _tensors(values: Any) -> bool:
    return all(isinstance(value, torch.Tensor) for value in values)
