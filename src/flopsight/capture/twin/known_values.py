"""Values on meta: what a storage without data would hold, computed on the CPU when code asks for it.

Mask builders call `.item()`, routers call `nonzero`. KnownContents belong to
storages, so every view sees what was written through another; whatever an unknown value touches becomes unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch

from ...errors import InputError
from ..hooks import internals
from ..model.tensors import flat, with_leaves

Tensor = torch.Tensor
aten = torch.ops.aten
LARGEST = 1 << 26
"""Elements above which a value is not worked out."""
DEEPEST = 100
"""The longest chain of deferred calls, before it is computed."""
ATTRIBUTE = "_flopsight_contents"
WRITTEN = "_flopsight_written"

OVERWRITES = {aten.copy_, aten.fill_, aten.zero_}
"""Ops that do not look at what they overwrite."""
EMPTY = {aten.empty, aten.empty_like, aten.empty_strided, aten.empty_permuted, aten.new_empty, aten.new_empty_strided}
WRITES_QUIETLY = {aten.native_batch_norm: (3, 4), aten.cudnn_batch_norm: (3, 4), aten.miopen_batch_norm: (3, 4)}
"""Arguments that an op writes into though its schema does not say so, by position."""

RESHAPING = ("resize", "set_", "squeeze", "transpose", "t_", "swap", "as_strided")
"""Words in the names of ops that change a tensor's shape in place."""

Layout = tuple[torch.Size, tuple[int, ...], int, internals.Signs]


class Unknowable(InputError):
    """A value is needed that a model on meta does not have."""


class KnownContents:
    """What a storage holds from one write to the next: its elements in a row, made once."""

    __slots__ = ("_elements", "_make", "assumed", "depth")

    def __init__(self, make: Callable[[], Tensor], depth: int = 0, *, assumed: bool = False) -> None:
        self._make: Callable[[], Tensor] | None = make
        self._elements: Tensor | None = None
        self.depth = depth
        self.assumed = assumed
        """Whether it follows from a choice that we made, as a router's on unknown values."""

    @property
    def elements(self) -> Tensor:
        """The whole storage on the CPU, read-only."""
        if self._elements is None:
            assert self._make is not None
            with torch.no_grad(), internals.without_modes():
                self._elements = self._make()
            self._make, self.depth = None, 0
        return self._elements


class Read:
    """A tensor as an op sees it: a view of some contents."""

    __slots__ = ("contents", "dtype", "layout")

    def __init__(self, tensor: Tensor) -> None:
        contents = contents_of(tensor)
        if contents is None:
            raise Unknowable
        self.contents, self.dtype, self.layout = contents, tensor.dtype, _layout(tensor)

    def of(self, elements: Tensor) -> Tensor:
        """The tensor, as a view of these elements."""
        return _view(elements.view(self.dtype), self.layout)


class DeferredOp:
    """An op that waits to be run on the CPU; it writes into copies."""

    def __init__(self, func: Any, args: Any, kwargs: Any, written: list[KnownContents]) -> None:
        read = [_sure(tensor) for tensor in flat((args, kwargs)) if tensor.is_meta]
        self.func, self.written = func, written
        self.args, self.kwargs = with_leaves(args, _as_read), with_leaves(kwargs, _as_read)
        self.depth = 1 + max((contents.depth for contents in read), default=0)
        self.assumed = any(contents.assumed for contents in read)
        self._made: tuple[Any, dict[KnownContents, Tensor]] | None = None

    def made(self) -> tuple[Any, dict[KnownContents, Tensor]]:
        """What the op returned, and the elements of what it wrote into."""
        if self._made is None:
            copies = {contents: contents.elements.clone() for contents in self.written}
            self._made = self.func(*_live(self.args, copies), **_live(self.kwargs, copies)), copies
            self.args = self.kwargs = None
        return self._made


def contents_of(tensor: Tensor) -> KnownContents | None:
    """What a meta tensor's storage holds, if that is known."""
    if not tensor.is_meta or tensor.layout is not torch.strided or internals.is_wrapper_subclass(tensor):
        return None
    return getattr(tensor.untyped_storage(), ATTRIBUTE, None)


def value_of(tensor: Tensor) -> Tensor:
    """The value of a tensor on the CPU, not to be written into; `Unknowable` if there is none."""
    if tensor.device.type == "cpu":
        return tensor
    try:
        read = Read(tensor)
        return read.of(read.contents.elements)
    except Exception as problem:  # what the CPU cannot do is as unknown as what was never there
        raise Unknowable from problem


_noting: list[set[Any]] = []


@contextmanager
def noting_reads() -> Iterator[set[Any]]:
    """Note the storages of the real tensors whose values a twin asks for: these may decide how much work it does."""
    noted: set[Any] = set()
    _noting.append(noted)
    try:
        yield noted
    finally:
        _noting.remove(noted)


def remember(twin: Tensor, real: Tensor, *, part_of: Tensor | None = None) -> Tensor:
    """Give a new meta tensor the values of the real tensor that it replaces, as long as no op writes into that one."""
    if real.is_meta or real.numel() > LARGEST:
        return twin
    source = real if part_of is None else part_of
    version = internals.version(source)

    def read() -> Tensor:
        if internals.version(source) != version:
            raise Unknowable
        for noted in _noting:
            noted.add(internals.storage_key(source))
        return real.detach().cpu().clone()

    return with_value(twin, read)


def with_value(tensor: Tensor, value: Callable[[], Tensor], depth: int = 0, *, assumed: bool = False) -> Tensor:
    """A fresh meta tensor whose value is made when it is asked for."""
    layout, dtype, size = _layout(tensor), tensor.dtype, _elements_in_storage(tensor)
    return _put(tensor, KnownContents(lambda: _laid_out(value(), layout, dtype, size), depth, assumed=assumed))


def forget(tensors: Any) -> None:
    """From here on the storages of these tensors hold something unknown."""
    for tensor in flat(tensors):
        if contents_of(tensor) is not None:
            delattr(tensor.untyped_storage(), ATTRIBUTE)


@cache
def returns_itself(func: Any) -> bool:
    """Whether an op changes its first argument in place and hands it back unchanged in shape."""
    schema = internals.schema(func)
    return (
        schema.is_mutable
        and schema.name.endswith("_")
        and len(schema.returns) == 1
        and not any(word in schema.name for word in RESHAPING)
    )


def was_written(tensor: Tensor) -> bool:
    """Whether an op wrote into a meta tensor's storage."""
    return hasattr(tensor.untyped_storage(), WRITTEN)


def follow(func: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
    """Note what an op made of known values; what it wrote by unknown ones is no longer known."""
    written = {internals.storage_key(tensor): tensor for tensor in _written(func, args, kwargs)}
    for tensor in written.values():
        setattr(tensor.untyped_storage(), WRITTEN, True)
    if not written and (any(contents_of(t) is None for t in flat(args)) or _is_view(args, output)):
        return
    try:
        _check_repeatable(func)
        if func.overloadpacket in OVERWRITES and contents_of(args[0]) is None and _is_whole(args[0]):
            _blank(args[0])
        call = DeferredOp(func, args, kwargs, [_sure(tensor) for tensor in written.values()])
    except Unknowable:
        forget(list(written.values()))
    else:
        _note(call, written, (args, kwargs), output)


def _is_view(args: Any, output: Any) -> bool:
    if not args or not isinstance(args[0], Tensor) or not isinstance(output, Tensor):
        return False
    stored = internals.has_storage(args[0]) and internals.has_storage(output)
    return stored and internals.storage_key(args[0]) == internals.storage_key(output)


def _check_repeatable(func: Any) -> None:
    if torch.Tag.nondeterministic_seeded in func.tags:
        raise Unknowable


def _note(call: DeferredOp, written: dict[int, Tensor], inputs: Any, output: Any) -> None:
    """The contents of everything that a call wrote and made."""
    given = {internals.storage_key(tensor) for tensor in flat(inputs)}
    for tensor in written.values():
        before = _sure(tensor)
        written_by_call = partial(_written_by, call, before)
        _put(tensor, KnownContents(written_by_call, call.depth, assumed=call.assumed))
    alone = isinstance(output, Tensor)
    for i, tensor in enumerate([output] if alone else output if isinstance(output, list | tuple) else ()):
        if not isinstance(tensor, Tensor) or not tensor.is_meta or tensor.numel() > LARGEST:
            continue
        if internals.storage_key(tensor) in given or contents_of(tensor) is not None:
            continue
        if call.func.overloadpacket in EMPTY:
            _blank(tensor)
        else:
            with_value(tensor, partial(_made_by, call, None if alone else i), call.depth, assumed=call.assumed)
    if call.depth > DEEPEST:
        for tensor in [*written.values(), *flat(output)]:
            try:
                value_of(tensor)
            except Unknowable:
                forget(tensor)


def _written_by(call: DeferredOp, before: KnownContents) -> Tensor:
    return call.made()[1][before]


def _made_by(call: DeferredOp, position: int | None) -> Tensor:
    made = call.made()[0]
    result: Tensor = made if position is None else made[position]
    return result


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[Tensor]:
    for position, name in _written_arguments(func):
        value = args[position] if position < len(args) else kwargs.get(name)
        yield from (tensor for tensor in flat(value) if tensor.is_meta and tensor.layout is torch.strided)


@cache
def _written_arguments(func: Any) -> tuple[tuple[int, str], ...]:
    quiet = WRITES_QUIETLY.get(func.overloadpacket, ())
    return tuple(
        (i, argument.name)
        for i, argument in enumerate(internals.schema(func).arguments)
        if i in quiet or (argument.alias_info is not None and argument.alias_info.is_write)
    )


def _put(tensor: Tensor, contents: KnownContents) -> Tensor:
    setattr(tensor.untyped_storage(), ATTRIBUTE, contents)
    return tensor


def _sure(tensor: Tensor) -> KnownContents:
    contents = contents_of(tensor)
    if contents is None:
        raise Unknowable
    return contents


def _blank(tensor: Tensor) -> None:
    """A storage that is there to be written into."""
    size, dtype = _elements_in_storage(tensor), tensor.dtype
    _put(tensor, KnownContents(lambda: torch.zeros(size, dtype=dtype, device="cpu")))


def _layout(tensor: Tensor) -> Layout:
    return tensor.shape, tensor.stride(), int(tensor.storage_offset()), internals.signs(tensor)


def _view(elements: Tensor, layout: Layout) -> Tensor:
    shape, stride, offset, signs = layout
    return internals.with_signs(elements.as_strided(shape, stride, offset), signs)


def _elements_in_storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.itemsize


def _is_whole(tensor: Tensor) -> bool:
    return tensor.numel() == _elements_in_storage(tensor) <= LARGEST


def _laid_out(value: Tensor, layout: Layout, dtype: torch.dtype, size: int) -> Tensor:
    """A value in the memory order that its meta tensor has; an expanded dimension is stored once."""
    shape, stride, offset, signs = layout
    if value.shape != shape or value.dtype != dtype:
        raise Unknowable
    once = [slice(0, None if step else 1) for step in stride]
    elements = torch.empty(size, dtype=dtype, device="cpu")
    stored = value[tuple(once)] if shape else value
    _view(elements, (stored.shape, stride, offset, signs)).copy_(stored)
    return elements


def _as_read(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return Read(leaf) if leaf.is_meta else leaf
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf


def _live(value: Any, copies: dict[KnownContents, Tensor]) -> Any:
    def read(leaf: Any) -> Any:
        return leaf.of(copies.get(leaf.contents, leaf.contents.elements)) if isinstance(leaf, Read) else leaf

    return with_leaves(value, read)
