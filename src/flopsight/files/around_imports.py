"""Runs modules in a context of ours while they are imported, through the loaders that they have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Around = Callable[[ModuleType], AbstractContextManager[None]]


class AroundImports(MetaPathFinder):
    """Finds modules, or the `only` one, through the other finders, and runs each of them inside `around(module)`."""

    def __init__(self, around: Around, only: str = "") -> None:
        self._around = around
        self._only = only

    def install(self) -> Callable[[], None]:
        """Be the first finder that Python asks; returns the function that undoes it."""
        sys.meta_path.insert(0, self)
        return self._remove

    def _remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where the other finders find the module."""
        for finder in tuple(sys.meta_path) if self._only in ("", fullname) else ():
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and not isinstance(spec.loader, type):  # built-in modules have classes
                    self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader: Loader) -> None:
        """Have the loader run its module, once, in the context."""
        run = loader.exec_module

        def running(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            with self._around(module):
                run(module)

        loader.exec_module = running  # type: ignore[method-assign]
