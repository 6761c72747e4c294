"""Models in the user's own files and modules: found by name, called with the changes as arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from ..errors import InputError
from .address import FILE, HELP, Address
from .blueprint import Blueprint, Call
from .changes import typed_arguments
from .complaints import missing_name
from .room import if_small
from .users import users_code


def code_blueprint(address: Address) -> Blueprint:
    """A model, a class, a factory, or any of these with inputs.

    Code that makes a large model when it is imported runs only when the model is built: on meta, or if it fits.
    """
    small = if_small(lambda: _load(address))

    def build() -> tuple[Any, Call]:
        return _made(address, _load(address) if small is None else small)

    return Blueprint(build)


def _load(address: Address) -> ModuleType:
    with users_code(address.text):
        return _load_file(Path(address.home)) if address.kind == FILE else _load_module(address.home)


def _made(address: Address, module: ModuleType) -> tuple[Any, Call]:
    with users_code(address.text):
        found = _attribute(module, address)
    if isinstance(found, type) or (callable(found) and not isinstance(found, nn.Module)):
        arguments = typed_arguments(address.shown, found, address.changes)
        with users_code(address.text):
            found = found(**arguments)
        return _model_and_call(address.text, found)
    if address.changes:
        raise InputError(f"{address.shown} is {_a(found)}, which takes no changes. Name its class or a function.")
    return _model_and_call(address.text, found)


@contextmanager
def imports_put_back() -> Iterator[None]:
    """Put the import path back after the block, and forget files that were run in it, with what they import from their folder.

    Else a file of another folder would find the neighbours of this one where its own have the same names.
    """
    path, known = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        new = {name: module for name, module in sys.modules.items() if name not in known}
        folders = {_home(module) for module in new.values() if RUN_AS_TARGET in getattr(module, "__dict__", ())}
        theirs = {name for name in new if folders and "." not in name and _home(new[name]) in folders}
        for name in new:
            if name.partition(".")[0] in theirs:
                del sys.modules[name]


def _home(module: ModuleType) -> Path | None:
    """The folder that a module or a package lies in; None if it is built in or spread over several."""
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    return (Path(file).parent.parent if hasattr(module, "__path__") else Path(file).parent).resolve()


RUN_AS_TARGET = "_flopsight_target"
"""The attribute of a module that is a target's file."""


def _load_file(path: Path) -> ModuleType:
    """Run a file as a module, with its folder first in the import path as Python itself does."""
    sys.path.insert(0, str(path.parent.resolve()))
    name = path.stem if path.stem not in sys.modules else f"_flopsight_target_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    setattr(module, RUN_AS_TARGET, True)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as problem:
        # only if the target itself is missing; what a user's module fails to import is the user's traceback
        if problem.name is not None and (name == problem.name or name.startswith(f"{problem.name}.")):
            raise InputError(f"There is no module {problem.name!r} to import {name} from. A target is {HELP}") from None
        raise


def _attribute(module: ModuleType, address: Address) -> Any:
    found: Any = module
    for part in address.name.split("."):
        if not hasattr(found, part):
            raise missing_name(address, list(vars(module)), _offered(module))
        found = getattr(found, part)
    return found


def _offered(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", None) == module.__name__
    ]


def _model_and_call(text: str, found: Any) -> tuple[Any, Call]:
    """`model`, `(model, x)`, `(model, args)`, `(model, kwargs)` or `(model, args, kwargs)`."""
    model, *inputs = found if isinstance(found, tuple) else (found,)
    if not isinstance(model, nn.Module):
        raise InputError(f"{text} is {_a(model)}, not a torch.nn.Module or a function that returns one.")
    if len(inputs) > 2:
        raise InputError(f"{text} returned {len(inputs) + 1} things; it may return a model, its args and its kwargs.")
    return model, Call.of(given for given in inputs if given is not None)


def _a(value: Any) -> str:
    return "a module file" if isinstance(value, ModuleType) else f"of type {type(value).__name__}"
