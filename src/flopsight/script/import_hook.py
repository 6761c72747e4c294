"""Tell when a module has been imported, without importing it: the script may set things up before it does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


@contextmanager
def when_imported(name: str, arrived: Callable[[], None]) -> Iterator[None]:
    """Call `arrived` when the module is there: now, or right after its import inside the block."""
    if name in sys.modules:
        arrived()
        yield
        return
    finder = _Finder(name, arrived)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.step_aside()


class _Finder(MetaPathFinder):
    """Finds one module through the other finders, and hears when it has been run."""

    def __init__(self, name: str, arrived: Callable[[], None]) -> None:
        self._name = name
        self._arrived = arrived

    def step_aside(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        self.step_aside()
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            _announce(spec.loader, self._arrived)
        return spec


def _announce(loader: Loader, arrived: Callable[[], None]) -> None:
    """Let a loader say when its module has been run, this once."""
    run = loader.exec_module

    def running(module: ModuleType) -> None:
        del loader.exec_module
        run(module)
        arrived()

    loader.exec_module = running  # type: ignore[method-assign]
