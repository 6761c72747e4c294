"""Tensors without their values: quick raw tuples while a model runs, `TensorMeta` afterwards."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache, partial
from math import prod
from typing import Any

import torch

from ...results.records import TensorMeta
from ..hooks import internals

Tensor = torch.Tensor
ATOMS = frozenset((type(None), bool, int, float, str, torch.dtype, torch.device))
SCALARS = (bool, int, float, complex, str, type(None))
SEQUENCES = (list, tuple)
GROUPS = (list, tuple, set)
COMPRESSED = frozenset((torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc))
CONTIGUOUS = "contiguous"
"""Stands for the strides of a contiguous tensor, which follow from its shape: a tuple less for every tensor of every op."""
DEEPEST = 12
"""How deep inputs and outputs may nest before we stop looking for tensors."""


def raw(value: Any) -> Any:
    """The same value with every tensor replaced by its raw meta and every list by a tuple."""
    if type(value) in ATOMS:
        return value
    if isinstance(value, Tensor):
        if value.is_nested:  # its shape holds no number for its rows
            return (_rows(value), None, value.dtype, value.device)
        try:
            steps = CONTIGUOUS if value.is_contiguous() else value.stride()
        except (RuntimeError, NotImplementedError):  # sparse tensors have no strides
            steps = None
        return (value.shape, steps, value.dtype, value.device)
    if isinstance(value, SEQUENCES):
        return tuple(value) if value and type(value[0]) is int else tuple(map(raw, value))
    if isinstance(value, torch.ScriptObject):  # a collective's work holds its tensors, so a record must not hold it
        return type(value).__name__
    return value if value.__hash__ is not None else repr(type(value))


def _rows(nested: Tensor) -> torch.Size:
    """The rows of all tensors in a nested one, which is how torch multiplies them; it has no shape of its own."""
    try:
        width = int(nested.size(-1))
    except (TypeError, RuntimeError, ValueError, AttributeError):  # rows of several lengths: each element is one
        width = 1
    return torch.Size((nested.numel() // width if width else 0, width))


def meta(value: Any) -> Any:
    """The same raw value with every raw meta replaced by a `TensorMeta`."""
    if isinstance(value, tuple):
        if len(value) == 4 and isinstance(value[0], torch.Size):
            return _tensor_meta(*value)
        return tuple([meta(item) for item in value])
    if isinstance(value, list):
        return tuple([meta(item) for item in value])
    return value if isinstance(value, SCALARS) else str(value)


def metas(value: Any) -> Iterator[TensorMeta]:
    """Every tensor in a raw value."""
    found = meta(value)
    if isinstance(found, TensorMeta):
        yield found
    elif isinstance(found, tuple):
        yield from (item for item in found if isinstance(item, TensorMeta))


def flat(value: Any) -> list[Tensor]:
    """Every tensor in the arguments of an op."""
    found: list[Tensor] = []
    _add_tensors((value,), found)
    return found


def _add_tensors(values: Iterable[Any], found: list[Tensor]) -> None:
    for value in values:
        if type(value) in ATOMS:
            continue
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, SEQUENCES):
            _add_tensors(value, found)
        elif isinstance(value, dict):
            _add_tensors(value.values(), found)


def with_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """The arguments of an op, with `change` applied to everything that is not a list, tuple or dict."""
    if isinstance(value, SEQUENCES):
        return type(value)([with_leaves(item, change) for item in value])
    if isinstance(value, dict):
        return {key: with_leaves(item, change) for key, item in value.items()}
    return change(value)


def tensors_in(value: Any) -> list[Tensor]:
    """Every tensor in a module's inputs or outputs: nested containers, mappings and dataclasses."""
    found: list[Tensor] = []
    _gather(value, found, 0)
    return found


def tensor_metas(value: Any) -> tuple[Any, ...]:
    """Raw metas of every tensor in a module's inputs or outputs."""
    if type(value) is tuple and len(value) == 1:  # as most modules are called
        (value,) = value
    return (raw(value),) if isinstance(value, Tensor) else tuple(map(raw, tensors_in(value)))


def _gather(value: Any, found: list[Tensor], depth: int) -> None:
    if isinstance(value, Tensor):
        found.append(value)
    elif type(value) in ATOMS or depth > DEEPEST:
        return
    else:
        for item in _parts(value):
            _gather(item, found, depth + 1)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, GROUPS):
        return value
    if isinstance(value, Mapping):
        return value.values()
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, f.name, None) for f in fields(value)]
    return ()


def stored_bytes(tensor: Tensor) -> int:
    """What the numbers of a tensor take; a sparse one has only those that it stores."""
    if tensor.layout is torch.sparse_coo:
        return internals.sparse_values(tensor).nbytes
    return tensor.values().nbytes if tensor.layout in COMPRESSED else tensor.nbytes


def plain_tensors(tensor: Tensor) -> Iterator[Tensor]:
    """The tensors with memory of their own: this one, or those that a wrapper subclass holds."""
    if internals.has_storage(tensor):
        yield tensor
    else:
        for part in internals.inner_tensors(tensor).values():
            yield from plain_tensors(part)


def local_part(tensor: Any) -> Any:
    """What this rank holds of a tensor that is spread over ranks; any other tensor itself."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def held_bytes(tensor: Tensor) -> int:
    """Bytes that this process holds of a tensor: a shard of a DTensor, the codes and scales of a quantised weight."""
    if not internals.is_wrapper_subclass(tensor):
        return stored_bytes(tensor)
    return sum(part.nbytes for part in plain_tensors(tensor))


def without_data(tensor: Tensor) -> Tensor:
    """A tensor of the same shape on meta; of one that is spread over ranks, the whole shape."""
    return torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)


def with_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A module's inputs with every tensor changed; containers in which nothing changes stay the same objects."""
    return rebuilt(value, lambda leaf: change(leaf) if isinstance(leaf, Tensor) else leaf)


def rebuilt(value: Any, change: Callable[[Any], Any], *, anew: bool = False, whole: tuple[type, ...] = ()) -> Any:
    """A module's inputs with `change` applied to everything in them that is not a container.

    Containers in which nothing changes stay the same objects, unless all are to be made `anew`; those of the `whole`
    types are changed as they are.
    """
    inside = partial(rebuilt, change=change, anew=anew, whole=whole)
    if isinstance(value, (Tensor, *whole)):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = list(map(inside, value))
        return value if not anew and all(map(operator.is_, parts, value)) else type(value)(*parts)
    if type(value) in SEQUENCES or (anew and isinstance(value, SEQUENCES)):
        parts = list(map(inside, value))
        return value if not anew and all(map(operator.is_, parts, value)) else type(value)(parts)
    if isinstance(value, MutableMapping):
        return _copied_with(value, {key: inside(item) for key, item in value.items()}, anew)
    if is_dataclass(value) and not isinstance(value, type):
        return _copied_with(value, {f.name: inside(getattr(value, f.name)) for f in fields(value)}, anew)
    return change(value)


def _copied_with(value: Any, changed: Mapping[Any, Any], anew: bool) -> Any:
    mapping = isinstance(value, Mapping)
    same = all(item is (value[key] if mapping else getattr(value, key)) for key, item in changed.items())
    if same and not anew:
        return value
    twin = copy(value)
    for key, item in changed.items():
        if mapping:
            twin[key] = item
        else:
            object.__setattr__(twin, key, item)
    return twin


def _size(number: Any) -> int:
    """A dimension as an int; the ragged one of a nested tensor has no single size and is -1."""
    try:
        return int(number)
    except (TypeError, RuntimeError, ValueError, AttributeError):
        return -1


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@lru_cache(maxsize=65536)
def _tensor_meta(shape: Any, stride: Any, dtype: torch.dtype, device: torch.device) -> TensorMeta:
    sizes = tuple(map(_size, shape))
    if stride is CONTIGUOUS:
        strides: tuple[int, ...] | None = tuple(
            prod(max(size, 1) for size in sizes[i + 1 :]) for i in range(len(sizes))
        )
    else:
        strides = None if stride is None else tuple(map(_size, stride))
    return TensorMeta(sizes, strides, _dtype_name(dtype), device.type)
