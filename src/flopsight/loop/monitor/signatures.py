"""What a call of a model is called with, without the values: calls with equal signatures do equal work."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping
from copy import copy
from enum import Enum
from operator import attrgetter, itemgetter
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, cast
from weakref import ref

import torch
from torch import nn

from ...capture.model.tensors import tensors_in
from ...capture.model.wrappers import compiled_from
from ...distributed.shards import inside

CHOICES = frozenset((bool, str, type(None)))
"""Arguments that choose between ways through a model, and of which there are few."""
STEERING = frozenset((bool, int, float, str))
NO_CONFIGS = (nn.Module, torch.Tensor, type, FunctionType, MethodType)
MOST_CHOICES = 64
"""Attributes that are compared in each call: those nearest to the root."""
GONE = ""
"""Stands for a value of an attribute that is not a plain one."""
MOST_CHOSEN = 6
"""Values of an attribute; one with more steers nothing that could be counted for each of them."""
VALUES = frozenset((bool, int, str, type(None), torch.dtype, torch.device))
"""Arguments that may steer the work by their value; a float is a rate or a scale, and does not."""
LENGTHS = ("seqlens", "seq_lens", "lengths", "offsets")
"""Names of arguments that say how a packed batch is divided, whose values decide how much attention it takes."""
MOST_LENGTHS = 4096
MOST_VALUES = 1 << 14
"""Elements up to which values are compared that decide the work."""
MOST_ALIKE = 4
"""Calls with other values and equal work after which values are left alone."""
LONG = 64
"""Elements from which on a list is described by its length, or by its values if they are numbers."""
MOST_OBJECTS = 64
"""Objects in an argument that are looked into."""
needs_gradient = attrgetter("requires_grad")


class Signatures:
    """Tells the calls of one model apart by what decides their work."""

    def __init__(self, module: nn.Module) -> None:
        self.module = ref(module)
        self.names = _names_of(module)
        """Of the arguments that are given by their place."""
        self._parameters = list(module.parameters())
        kinds = tuple([type(one) for one in module.modules()])
        self._choices = Choices(module)
        self._model = (id(module), hash((kinds, tuple([tuple(one.shape) for one in self._parameters]))))
        self._has_lengths = any(name.endswith(LENGTHS) for name in self.names)
        self._read: set[int] = set()
        """Which of the tensors in a call have values that may decide its work."""
        self._counts: dict[Hashable, Hashable] = {}
        self._alike = 0

    def state(self, module: nn.Module, autocast: Hashable, grad: bool) -> tuple[Hashable, ...]:
        """What decides the work beside the arguments: modes, which parameters are trained, and what steers it."""
        trained = bytes(map(needs_gradient, self._parameters)) if grad else None  # hashed faster than a tuple
        choices = self._choices
        return (self._model, module.training, autocast, trained, choices.made() if choices.places else 0)

    def of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
        """Shapes, dtypes and plain values of a call's arguments."""
        given: tuple[Hashable, ...]
        if self._has_lengths:
            names = (*self.names, *[""] * len(args))
            given = tuple([_named(name, value) for name, value in zip(names, args, strict=False)])
        elif len(args) == 1 and type(args[0]) is torch.Tensor and not args[0].is_nested:  # most models, without a call
            one = args[0]
            given = (one.shape, one.dtype, one.requires_grad)
        else:
            given = tuple(map(part, args))
        shapes = (given, part(kwargs)) if kwargs else given
        return (shapes, self._values(args, kwargs)) if self._read else shapes

    def values_were_read(self, read: set[int], state: Hashable, args: Any, kwargs: Any, count: Hashable) -> None:
        """Tell calls apart by these tensors' values too, until enough values made no difference to the count."""
        places = read | self._read
        if self._alike > MOST_ALIKE or not places:
            return
        self._read = set()
        shapes = (self.of(args, kwargs), state)
        if shapes in self._counts:
            self._alike = self._alike + 1 if self._counts[shapes] == count else -MOST_LENGTHS
        self._counts[shapes] = count
        if self._alike <= MOST_ALIKE:
            self._read = places

    def _values(self, args: Any, kwargs: Any) -> Hashable:
        tensors = [tensor for at, tensor in enumerate(tensors_in((args, kwargs))) if at in self._read]
        readable = [one for one in tensors if one.is_cpu and one.numel() <= MOST_VALUES]
        values = [tuple(one.flatten().tolist()) for one in readable]
        return hash(tuple(values)), sum(one.count(-1) for one in values)  # -1 has the hash of -2


class Choices:
    """Attributes of a model's own classes, or of objects that these hold, that may steer its work: a depth, a task, a flag.

    One that takes many values counts something, and is left alone.
    """

    def __init__(self, module: nn.Module) -> None:
        found: dict[tuple[int, str], tuple[int, dict[str, Any], str]] = {}
        for path, one in module.named_modules():
            if type(one).__module__.startswith("torch."):
                continue
            objects = [value for name, value in vars(one).items() if name[0] != "_" and hasattr(value, "__dict__")]
            for held in (vars(one), *[vars(value) for value in objects if not isinstance(value, NO_CONFIGS)]):
                for name, value in held.items():
                    if _steers(value) and name[0] != "_" and name != "training":
                        depth = path.count(".") + (held is not vars(one))
                        found.setdefault((id(held), name), (depth, held, name))
        nearest = sorted(found.values(), key=itemgetter(0))[:MOST_CHOICES]
        self.places = [(held, name) for _, held, name in nearest]
        self._seen: list[set[str]] = [set() for _ in self.places]
        self._values: list[Any] = []
        self._made = 0

    def made(self) -> int:
        """A number for the values that they have now."""
        values = [held.get(name) for held, name in self.places]
        try:
            same = values == self._values
        except Exception:  # a tensor is there now
            same = False
        if not same:
            self._made = self._changed(values)
        return self._made

    def _changed(self, values: list[Any]) -> int:
        for value, seen in zip(values, self._seen, strict=True):
            seen.add(repr(value) if _steers(value) else GONE)
        kept = [at for at, seen in enumerate(self._seen) if len(seen) <= MOST_CHOSEN and GONE not in seen]
        self.places = [self.places[at] for at in kept]
        self._seen = [self._seen[at] for at in kept]
        self._values = [copy(values[at]) for at in kept]
        return hash(repr(self._values))  # that of a tuple is the same for -1 and -2


def _steers(value: Any) -> bool:
    """Whether an attribute is a plain value or a short list of them."""
    return type(value) in STEERING or (
        type(value) in (list, tuple) and len(value) <= LONG and all(type(item) in STEERING for item in value)
    )


def part(value: Any, seen: list[int] | None = None) -> Hashable:
    """One argument without its values; `seen` has the objects that it is a part of, and those met in them so far."""
    kind = type(value)
    if kind is torch.Tensor and not value.is_nested:
        return (value.shape, value.dtype, value.requires_grad)
    if kind in VALUES:
        return (kind, None if seen and kind is str else value)  # in an object, a text is a name
    if kind is dict or isinstance(value, Mapping):
        return tuple([(name, _named(name, item, seen)) for name, item in value.items()])
    if isinstance(value, torch.Tensor):
        return (kind, *_tensor(value))
    if isinstance(value, list | tuple):
        if len(value) <= LONG:
            return (kind, *[part(item, seen) for item in value])
        return (kind, *value) if type(value[0]) is int else (kind, len(value))
    if isinstance(value, Enum | range | bytes | type):
        return (kind, value)
    if isinstance(value, set):
        return (kind, *[_tensor(tensor) for tensor in tensors_in(value)])
    return (kind, *_object(value, [] if seen is None else seen))


def _object(value: Any, seen: list[int]) -> tuple[Hashable, ...]:
    """What an object holds: a batch of some library, a cache, a choice."""
    if id(value) in seen or len(seen) > MOST_OBJECTS or isinstance(value, ModuleType):
        return ()
    seen.append(id(value))
    if isinstance(value, nn.Module):
        return tuple([part(one) for one in value.parameters()])
    if isinstance(value, FunctionType):
        return (value.__code__, *[part(_stored(cell, "cell_contents"), seen) for cell in value.__closure__ or ()])
    slots = [
        name for kind in type(value).__mro__ for name, one in vars(kind).items() if type(one) is MemberDescriptorType
    ]
    held = {name: _stored(value, name) for name in slots} | getattr(value, "__dict__", {})
    return (part(held, seen),) if held else (str(getattr(value, "shape", None)),)  # an array of another library


def _stored(value: Any, name: str) -> Any:
    """What an object has in a slot; None if that is empty."""
    try:
        return getattr(value, name)
    except (AttributeError, ValueError):
        return None


def shapes_of(output: Any) -> Hashable:
    """The shapes of what a call returned."""
    return tuple([None if one.is_nested else one.shape for one in tensors_in(output)])


def choices(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """The arguments of a call that choose between ways through the model."""
    given = (*enumerate(args), *kwargs.items())
    return tuple([(name, value) for name, value in given if type(value) in CHOICES])


def _named(name: Any, value: Any, seen: list[int] | None = None) -> Hashable:
    return _lengths(value) if type(name) is str and name.endswith(LENGTHS) else part(value, seen)


def _tensor(tensor: torch.Tensor) -> tuple[Hashable, ...]:
    if tensor.is_nested:  # its shape has no number for the lengths
        return ("nested", *_row_lengths(tensor), tensor.dtype, tensor.requires_grad)
    return (tensor.shape, tensor.dtype, tensor.requires_grad)


def _row_lengths(nested: torch.Tensor) -> tuple[Any, ...]:
    if nested.is_cpu and nested.layout is torch.jagged:
        return (str(nested.shape[1:]), *cast("Any", nested).offsets().tolist())
    return (nested.numel(),)


def _lengths(value: Any) -> Hashable:
    """The values of a short tensor of lengths; one on a device is not read, since that would wait for it."""
    readable = isinstance(value, torch.Tensor) and value.is_cpu and value.dim() == 1 and value.numel() <= MOST_LENGTHS
    return (part(value), *value.tolist()) if readable else part(value)


def _names_of(module: nn.Module) -> tuple[str, ...]:
    try:
        found = inspect.signature(inside(compiled_from(module)).forward).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(one.name for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD))
