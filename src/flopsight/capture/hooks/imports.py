"""Modules that are imported while torch is patched must not keep the patch: torch._dynamo keeps `nn.Module.__call__`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Aside = Callable[[ModuleType], AbstractContextManager[None]]


class ImportsAside(MetaPathFinder):
    """Finds modules through the other finders, and runs each of them inside `aside(module)`."""

    def __init__(self, aside: Aside) -> None:
        self._aside = aside

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
        for finder in tuple(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and not isinstance(spec.loader, type):  # built-in modules have classes
                    self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader: Loader) -> None:
        """Have the loader step aside once, while it runs its module."""
        run = loader.exec_module

        def running(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            with self._aside(module):
                run(module)

        loader.exec_module = running  # type: ignore[method-assign]
