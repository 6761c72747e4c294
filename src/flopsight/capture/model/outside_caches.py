"""Caches outside a model that its forward fills: a table in a global dictionary, a function that remembers its results.

A twin would leave meta tensors there, and the next real forward would find them.
"""

from __future__ import annotations

import functools
import gc
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

from torch import nn

from .restore import CONTAINERS, put_all_back
from .tensors import tensors_in

REMEMBERING = type(functools.cache(lambda: None))
"""What functools.cache and functools.lru_cache make."""
FOREIGN = frozenset(("torch", "builtins", "functools", "typing", "collections", "numpy"))
"""Packages that keep no tensors of a model."""


@contextmanager
def kept_outside_caches(model: nn.Module) -> Iterator[None]:
    """Put back what the block leaves on meta in the classes of a model, and in the globals of the files that they come from."""
    kinds = set(map(type, model.modules()))
    classes = {base for kind in kinds for base in kind.__mro__ if not _is_foreign(base.__module__)}
    files = {name: sys.modules[name] for kind in classes for name in _files_of(kind.__module__)}
    owners = [(owner, dict(vars(owner))) for owner in (*classes, *files.values())]
    values = [value for _, held in owners for value in held.values()]
    containers = [(value, value.copy()) for value in values if type(value) in CONTAINERS]
    remembering = [value for value in values if isinstance(value, REMEMBERING)]
    try:
        yield
    finally:
        put_all_back(
            [
                *(partial(_put_attributes_back, owner, held) for owner, held in owners),
                *(partial(_put_contents_back, container, held) for container, held in containers),
                *(function.cache_clear for function in remembering if any(map(_on_meta, _remembered(function)))),
            ]
        )


def _is_foreign(name: str | None) -> bool:
    """Whether a class or a function is not part of the model's code; what torch.compile leaves among globals has no module."""
    return name is None or name.partition(".")[0] in FOREIGN or name not in sys.modules


def _files_of(name: str) -> Iterator[str]:
    """The file of a class, and those of the functions that it uses."""
    yield name
    for value in tuple(vars(sys.modules[name]).values()):
        if isinstance(value, FunctionType) and not _is_foreign(value.__module__):
            yield value.__module__


def _put_attributes_back(owner: Any, held: dict[str, Any]) -> None:
    _put_items_back(dict(vars(owner)), held, partial(setattr, owner), partial(delattr, owner))


def _put_contents_back(container: Any, held: Any) -> None:
    if isinstance(container, dict):
        _put_items_back(container, held, container.__setitem__, container.__delitem__)
    elif _on_meta(container) and not (len(container) == len(held) and all(map(operator.is_, container, held))):
        container.clear()
        (container.update if isinstance(container, set) else container.extend)(held)


def _put_items_back(
    now: dict[Any, Any], held: dict[Any, Any], put: Callable[[Any, Any], None], drop: Callable[[Any], None]
) -> None:
    """Put back what was there under the keys under which something new is on meta."""
    for key in [key for key, value in now.items() if value is not held.get(key) and _on_meta(value)]:
        if key in held:
            put(key, held[key])
        else:
            drop(key)


def _on_meta(value: Any) -> bool:
    return not isinstance(value, type) and any(tensor.is_meta for tensor in tensors_in(value))


def _remembered(function: Any) -> Iterator[Any]:
    """The results that a function remembers: Python has them in a dictionary, or in a list if their number is limited."""
    for held in gc.get_referents(function):
        yield from held.values() if isinstance(held, dict) else (held,)
