"""A target on the command line, turned into a model and what to call it with."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import InputError, did_you_mean
from . import providers
from .inputs import EXAMPLE, Spec, check_call, make_inputs
from .users import users_code

if TYPE_CHECKING:
    from torch import nn

HELP = (
    "file.py:factory, package.module:name, zoo:resnet18, hf:llama, torchvision:resnet50 or timm:vit_base_patch16_224. "
    "A factory returns a model, or a model and its inputs."
)
PROVIDERS: Mapping[str, Callable[[str], Any]] = {
    "zoo": providers.zoo_model,
    "hf": providers.hugging_face_model,
    "torchvision": providers.torchvision_model,
    "timm": providers.timm_model,
}


@dataclass(frozen=True)
class Target:
    """A model and what to call it with."""

    text: str
    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def load_target(
    text: str, specs: Sequence[Spec] = (), *, device: str | None = None, dtype: str | None = None, meta: bool = False
) -> Target:
    """The model that a target names, on its device and in its dtype, with inputs that fit its forward."""
    import torch

    with torch.device("meta") if meta else nullcontext():
        target = _placed(_find(text), None if meta else device, dtype)
        if specs:
            args, kwargs = make_inputs(specs, target.model)
            target = replace(target, args=args, kwargs=kwargs)
    if not target.args and not target.kwargs and _needs_inputs(target.model):
        raise InputError(f"{text} comes without inputs. Say them with -i: {EXAMPLE}.")
    check_call(target.model, target.args, dict(target.kwargs))
    return target


def _find(text: str) -> Target:
    scheme, colon, name = text.partition(":")
    if colon and scheme in PROVIDERS:
        return _target(text, PROVIDERS[scheme](name))
    home, _, name = text.rpartition(":") if colon else (text, "", "")
    if not home.endswith(".py") and not colon:
        raise InputError(f"{text!r} names no model. A target is {HELP}")
    with users_code(text):
        module = _load_file(Path(home)) if home.endswith(".py") else _load_module(home)
        return _target(text, _attribute(module, home, name or "model"))


def _load_file(path: Path) -> ModuleType:
    """Run a file as a module, with its folder first in the import path as Python itself does."""
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    sys.path.insert(0, str(path.parent.resolve()))
    name = path.stem if path.stem not in sys.modules else f"_flopsight_target_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as problem:
        # only where the target itself is missing; what a user's module fails to import is the user's traceback
        if problem.name is not None and (name == problem.name or name.startswith(f"{problem.name}.")):
            raise InputError(f"There is no module {problem.name!r} to import {name} from. A target is {HELP}") from None
        raise


def _attribute(module: ModuleType, home: str, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{home} has no {name!r}.{did_you_mean(name, vars(module)) or _candidates(module)}")
        found = getattr(found, part)
    return found


def _candidates(module: ModuleType) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", None) == module.__name__
    ]
    return f" It has {', '.join(own)}." if own else ""


def _target(text: str, found: Any) -> Target:
    """A model, a class, a factory, or any of these with inputs."""
    from torch import nn

    if isinstance(found, type) or (callable(found) and not isinstance(found, nn.Module)):
        with users_code(text):
            found = found()
    model, *inputs = found if isinstance(found, tuple) else (found,)
    if not isinstance(model, nn.Module):
        raise InputError(f"{text} is {_a(model)}, not a torch.nn.Module or a function that returns one.")
    args, kwargs = _as_call(text, inputs)
    return Target(text, model, args, kwargs)


def _as_call(text: str, inputs: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`(model, x)`, `(model, args)`, `(model, kwargs)` or `(model, args, kwargs)`."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if len(inputs) > 2:
        raise InputError(f"{text} returned {len(inputs) + 1} things; it may return a model, its args and its kwargs.")
    for given in inputs:
        if isinstance(given, Mapping):
            kwargs = dict(given)
        elif isinstance(given, tuple | list):
            args = tuple(given)
        elif given is not None:
            args = (given,)
    return args, kwargs


def _placed(target: Target, device: str | None, dtype: str | None) -> Target:
    """Move model and inputs to a device and a floating dtype."""
    import torch

    number = getattr(torch, dtype) if dtype else None
    if number is not None and not number.is_floating_point:
        raise InputError(f"A model cannot be {dtype}; --dtype takes float32, bfloat16, float16 or float64.")
    if device is not None:
        _check_device(device)

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(device=device, dtype=number if value.is_floating_point() else None)
        return value

    with users_code(target.text):
        model = target.model.to(device=device, dtype=number) if device or number else target.model
    args = tuple(move(value) for value in target.args)
    return replace(target, model=model, args=args, kwargs={name: move(value) for name, value in target.kwargs.items()})


def _check_device(device: str) -> None:
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as problem:
        lacking = isinstance(problem, NotImplementedError | ImportError)  # torch then names every backend that it has
        said = "this torch is built without it" if lacking else str(problem).splitlines()[0]
        raise InputError(f"There is no device {device!r} here: {said.rstrip('.')}. See `flopsight device`.") from None


def _needs_inputs(model: nn.Module) -> bool:
    """Whether the forward has arguments that nobody gave; an optional first one is what the model works on."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    named = [
        parameter for parameter in parameters if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    required = [parameter for parameter in named if parameter.default is parameter.empty]
    return bool(required) or bool(named and named[0].default is None)


def _a(value: Any) -> str:
    return "a module file" if isinstance(value, ModuleType) else f"of type {type(value).__name__}"
