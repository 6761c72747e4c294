"""`ignore_modules`: leaves classes, modules or names out of the totals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from ..engine.run_profile import Ignored
from ..errors import InputError, did_you_mean
from ..results.records import ModuleRow


def ignoring(model: nn.Module, modules: Iterable[Any] | None) -> Ignored | None:
    """A predicate over rows for what a user lists, or for a single class, module or name."""
    if modules is None:
        return None
    names: set[str] = set()
    kinds: set[str] = set()
    found = dict(model.named_modules(remove_duplicate=False))
    single = isinstance(modules, str | type | nn.Module) or not isinstance(modules, Iterable)
    for item in [modules] if single else modules:
        if isinstance(item, type):
            names |= {name for name, module in found.items() if isinstance(module, item)}
        elif isinstance(item, nn.Module):
            names |= {name for name, module in found.items() if module is item}
        elif isinstance(item, str):
            classes = {type(module).__name__ for module in found.values()}
            if item not in found and item not in classes:
                raise InputError(
                    f"ignore_modules names {item!r}, which the model does not have.{did_you_mean(item, [*found, *classes])}"
                )
            (names if item in found else kinds).add(item)
        else:
            raise InputError(f"ignore_modules takes module classes, modules and names, not {item!r}.")

    def ignored(row: ModuleRow) -> bool:
        return row.path in names or row.kind in kinds

    return ignored
