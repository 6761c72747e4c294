"""Whether a forward can be called with the inputs that were given, by its signature alone."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .complaints import refused_call, unknown_argument, without_inputs
from .inputs import Spec

if TYPE_CHECKING:
    from torch import nn


def check_call(kind: str, forward: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Say which argument of a class's forward is missing or unknown."""
    takes = f"{kind}.forward{_plain(forward)}"
    parameters = forward.parameters
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        for name in kwargs:
            if name not in parameters:
                raise unknown_argument(takes, name, parameters, listed=False)
    try:
        forward.bind(*args, **kwargs)
    except TypeError as problem:
        raise refused_call(takes, problem) from None


def check_passed_on(model: nn.Module, names: Sequence[str]) -> None:
    """Refuse a name that a forward takes by `**kwargs` and no module inside has an argument for."""
    forwards = [inspect.signature(kind.forward) for kind in {type(module): None for module in model.modules()}]
    own = inspect.signature(model.forward).parameters
    taken = {name for forward in forwards for name in (*forward.parameters, *_unpacked(forward))}
    for name in names:
        if name not in taken and name not in own:
            raise unknown_argument(type(model).__name__, name, own, listed=False)


def _unpacked(forward: inspect.Signature) -> list[str]:
    """The names in an annotation of `**kwargs`: `Unpack[TransformersKwargs]`."""
    hints = [
        parameter.annotation for parameter in forward.parameters.values() if parameter.kind is parameter.VAR_KEYWORD
    ]
    dictionaries = [kind for hint in hints for kind in typing.get_args(hint)]
    return [name for kind in dictionaries for name in getattr(kind, "__annotations__", ())]


def check_inputs(text: str, kind: str, forward: inspect.Signature, specs: Sequence[Spec]) -> None:
    """Say what is wrong with the inputs of a target before any of them is made."""
    if not specs and needs_inputs(forward):
        raise without_inputs(text)
    names = [spec.name for spec in specs if spec.name]
    check_call(kind, forward, [spec for spec in specs if not spec.name], dict.fromkeys(names))


def needs_inputs(forward: inspect.Signature) -> bool:
    """Whether a forward has arguments that must be given; an optional first one is what the model works on."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [parameter for parameter in forward.parameters.values() if parameter.kind not in several]
    required = [parameter for parameter in named if parameter.default is parameter.empty]
    return bool(required) or bool(named and named[0].default is None)


def _plain(signature: inspect.Signature) -> str:
    """The parameters without their annotations."""
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
