"""Calls a function right after a module is imported, without importing it: the script may set things up before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


@contextmanager
def when_imported(name: str, on_import: Callable[[], None]) -> Iterator[None]:
    """Call `on_import` now if the module is imported already, else right after its import inside the block."""
    if name in sys.modules:
        on_import()
        yield
        return
    finder = _Finder(name, on_import)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.remove()


class _Finder(MetaPathFinder):
    """Finds one module through the other finders, and wraps its loader to learn when the import is done."""

    def __init__(self, name: str, on_import: Callable[[], None]) -> None:
        self._name = name
        self._on_import = on_import

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        self.remove()
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            _call_after_import(spec.loader, self._on_import)
        return spec


def _call_after_import(loader: Loader, on_import: Callable[[], None]) -> None:
    """Have the loader call `on_import` once, after it has run its module."""
    run = loader.exec_module

    def running(module: ModuleType) -> None:
        del loader.exec_module
        run(module)
        on_import()

    loader.exec_module = running  # type: ignore[method-assign]
