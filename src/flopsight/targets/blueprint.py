"""A model that can be built: once for its size, once for real; and the inputs that fit it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Sizes:
    """How large default inputs are to be; None leaves it to the model's configuration."""

    batch: int | None = None
    seq: int | None = None
    """Tokens in a sequence."""


@dataclass(frozen=True)
class Call:
    """What a model is called with."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""
    """What a reader should know of inputs that were made without being asked for."""
    together: frozenset[str] = frozenset()
    """Names of inputs that fit one another: if one is given, the others are not made."""

    @classmethod
    def of(cls, inputs: Iterable[Any]) -> Call:
        """The call with what a function of the user's returned beside a model: args, kwargs, or a single input."""
        args: tuple[Any, ...] = ()
        kwargs: dict[str, Any] = {}
        for given in inputs:
            if isinstance(given, Mapping):
                kwargs = dict(given)
            else:
                args = tuple(given) if isinstance(given, tuple | list) else (given,)
        return cls(args, kwargs)


@dataclass(frozen=True)
class Blueprint:
    """How a target is built on whatever device is the default, and what it is called with."""

    build: Callable[[], nn.Module | tuple[nn.Module, Call]]
    inputs: Callable[[nn.Module, Sizes], Call] = lambda _model, _sizes: Call()
    labels: Callable[[nn.Module, Mapping[str, Any]], dict[str, Any]] = lambda _model, _given: {}
    """What a training step hands in beside the inputs."""
    fills_in: bool = False
    """Whether default inputs complete those that were given, as a decoder's tokens do beside an encoder's."""
    origin: str = ""
    """Where the configuration comes from."""
