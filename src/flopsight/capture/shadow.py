"""Values on meta: tensors derived from known values carry a recipe, worked out on the CPU only when code asks.

Model code asks more often than one thinks: mask builders call `.item()`, routers call `nonzero`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import internals

Tensor = torch.Tensor
LARGEST = 1 << 26
"""Elements above which a value is not worked out."""
ATTRIBUTE = "_flopsight_value"
aten = torch.ops.aten

UNKNOWABLE = {
    aten.rand.default, aten.randn.default, aten.empty.memory_format, aten.empty_strided.default,
    aten.empty_like.default, aten.randint.default, aten.randint.low, aten.randperm.default,
}  # fmt: skip
BY_VALUE = {aten.nonzero.default, aten.masked_select.default, aten._unique2.default, aten.unique_dim.default,
            aten.unique_consecutive.default, aten.repeat_interleave.Tensor, aten.bincount.default}  # fmt: skip
"""Ops whose result has a shape that depends on values."""


class Unknowable(Exception):
    """Code asked for a value that the twin does not have."""


class Recipe:
    """How to work out a tensor's value, once."""

    __slots__ = ("args", "func", "kwargs", "mutates", "value")

    def __init__(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], mutates: bool) -> None:
        self.func, self.args, self.kwargs, self.mutates = func, args, kwargs, mutates
        self.value: Any = None

    def work_out(self) -> Any:
        """The value, on the CPU."""
        if self.value is None:
            with torch.no_grad(), internals.without_modes():
                args = _worked_out(self.args)
                if self.mutates:
                    args = (args[0].clone(), *args[1:])
                self.value = self.func(*args, **_worked_out(self.kwargs))
            self.args = self.kwargs = None  # type: ignore[assignment]
        return self.value


def remember(twin: Tensor, real: Tensor) -> Tensor:
    """Let a meta tensor know the values of the tensor that it stands for."""
    if real.numel() <= LARGEST and not internals.is_wrapper_subclass(real):
        setattr(twin, ATTRIBUTE, Recipe(lambda: real.detach().cpu(), (), {}, mutates=False))
    return twin


def known(tensor: Tensor, value: Tensor) -> Tensor:
    """A meta tensor with a value that is already there."""
    recipe = Recipe(lambda: value, (), {}, mutates=False)
    recipe.value = value
    setattr(tensor, ATTRIBUTE, recipe)
    return tensor


def value_of(tensor: Tensor) -> Any:
    """The value of a meta tensor, or `Unknowable`."""
    recipe = getattr(tensor, ATTRIBUTE, None)
    if recipe is None:
        raise Unknowable
    return recipe.work_out()


def follow(func: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
    """Give the result of an op a recipe where all its operands have one; take it away where one has none."""
    results = [output] if isinstance(output, Tensor) else list(output) if isinstance(output, list | tuple) else []
    results = [tensor for tensor in results if isinstance(tensor, Tensor)]
    if not results or not results[0].is_meta or results[0].numel() > LARGEST or func in UNKNOWABLE:
        return
    mutates = func._schema.is_mutable
    try:
        recipe = Recipe(func, _recipes(args), _recipes(kwargs), mutates)
    except AttributeError:
        if mutates and isinstance(args[0], Tensor) and hasattr(args[0], ATTRIBUTE):
            delattr(args[0], ATTRIBUTE)
        return
    if isinstance(output, Tensor):
        setattr(output, ATTRIBUTE, recipe)
        return
    for i, tensor in enumerate(output):
        if isinstance(tensor, Tensor):
            setattr(tensor, ATTRIBUTE, Recipe(lambda made, i=i: made[i], (recipe,), {}, mutates=False))


def by_value(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an op whose result's shape depends on values, with the values."""
    made = func(value_of(args[0]), *_worked_out(_recipes(args[1:], fail=Unknowable)), **kwargs)
    if isinstance(made, Tensor):
        return known(made.to("meta"), made)
    return tuple(known(one.to("meta"), one) for one in made)


def balanced(output: Any, choices: int) -> None:
    """A router's choice among experts on unknown values: every expert equally often."""
    chosen = output[1]
    if chosen.numel() <= LARGEST:
        with internals.without_modes():
            known(chosen, (torch.arange(chosen.numel()) % choices).view(chosen.shape))


def _recipes(value: Any, fail: type[Exception] | None = None) -> Any:
    if isinstance(value, Tensor):
        if not value.is_meta:
            return value
        if fail is not None and not hasattr(value, ATTRIBUTE):
            raise fail
        return getattr(value, ATTRIBUTE)
    if isinstance(value, list | tuple):
        return type(value)(_recipes(item, fail) for item in value)
    if isinstance(value, dict):
        return {key: _recipes(item, fail) for key, item in value.items()}
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _worked_out(value: Any) -> Any:
    if isinstance(value, Recipe):
        return value.work_out()
    if isinstance(value, list | tuple):
        return type(value)(map(_worked_out, value))
    if isinstance(value, dict):
        return {key: _worked_out(item) for key, item in value.items()}
    return value
