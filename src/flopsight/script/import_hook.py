"""Calls a function right after a module is imported, without importing it: the script may set things up before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from ..files.around_imports import AroundImports


@contextmanager
def when_imported(name: str, on_import: Callable[[], None]) -> Iterator[None]:
    """Call `on_import` now if the module is imported already, else right after its import inside the block."""
    if name in sys.modules:
        on_import()
        yield
        return

    @contextmanager
    def calling(_module: ModuleType) -> Iterator[None]:
        remove()
        yield
        on_import()

    remove = AroundImports(calling, name).install()
    try:
        yield
    finally:
        remove()
