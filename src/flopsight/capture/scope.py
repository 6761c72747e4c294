"""Which module are we in? The one file that assigns into torch, and puts back what was there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from ..records import OUTSIDE

Call = Callable[..., Any]
Watcher = Callable[[Call], Call]

_lock = threading.Lock()
_watchers: list[Watcher] = []
_plain: Call = nn.Module.__call__
_installed: Call | None = None


@contextmanager
def module_calls(watcher: Watcher) -> Iterator[None]:
    """Wrap every module call made inside the block. Watchers nest and may end in any order."""
    with _lock:
        _watchers.append(watcher)
        _install()
    try:
        yield
    finally:
        with _lock:
            _watchers.remove(watcher)
            _install()


def _install() -> None:
    """Compose the watchers over what was there before the first of them came."""
    global _plain, _installed  # noqa: PLW0603
    found: Call = nn.Module.__call__
    if _installed is None:
        _plain = found
    elif found is not _installed:
        return  # somebody patched over us: theirs stays on top, and ours steps aside when its watcher has ended
    call = _plain
    for watcher in _watchers:
        call = watcher(call)
    nn.Module.__call__ = call  # type: ignore[method-assign]
    _installed = call if _watchers else None


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Another value under a name in torch, until the block ends."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class Site:
    """One row of the profile to be: a qualified name in the model."""

    __slots__ = ("module", "path")

    def __init__(self, path: str, module: int = 0) -> None:
        self.path = path
        self.module = module
        """The id of its module."""

    def __repr__(self) -> str:
        return f"Site({self.path!r})"


class Sites:
    """The rows of a model, and which of them a module call belongs to.

    A module that is registered under several names is several rows; a call goes to the one below the caller.
    Without a model, every module called from outside all others becomes a root of its own.
    """

    def __init__(self, model: nn.Module | None = None) -> None:
        self.outside = Site(OUTSIDE)
        self.roots: dict[str, nn.Module] = {}
        self.owners: dict[int, Site] = {}
        self._rows: dict[int, list[Site]] = {}
        self._kept: list[nn.Module] = []
        self._model = model
        if model is not None:
            self._add("", model)

    def find(self, module: nn.Module, caller: Site) -> Site:
        """The row of a module that is called from `caller`."""
        rows = self._rows.get(id(module))
        if rows is None:
            rows = self._meet(module, caller)
        if len(rows) == 1:
            return rows[0]
        return max(rows, key=lambda row: _common(row.path, caller.path)) if rows else caller

    def row(self, module: nn.Module) -> Site | None:
        """The first row of a module, if it is part of what is watched."""
        rows = self._rows.get(id(module))
        return rows[0] if rows else None

    def _meet(self, module: nn.Module, caller: Site) -> list[Site]:
        """A module not seen before: added during the run, foreign to the model, or the root of a recording."""
        if self._model is None and caller is self.outside:
            self._add_root(module)
        else:
            for path, root in self.roots.items():
                if any(found is module for found in root.modules()):
                    self._add(path, root)
        return self._rows.setdefault(id(module), [])

    def _add_root(self, module: nn.Module) -> None:
        """A single root is the profile's root; from the second on, roots go by their class names below a common one."""
        if not self.roots:
            self._add("", module)
            return
        if "" in self.roots:
            first = self.roots.pop("")
            name = type(first).__name__
            self.roots[name] = first
            for row in {row for rows in self._rows.values() for row in rows}:
                row.path = f"{name}.{row.path}".rstrip(".")
        name = type(module).__name__
        taken = sum(root == name or root.startswith(f"{name}-") for root in self.roots)
        self._add(f"{name}-{taken + 1}" if taken else name, module)

    def _add(self, prefix: str, root: nn.Module) -> None:
        self.roots[prefix] = root
        for path, module in paths(root, prefix):
            rows = self._rows.setdefault(id(module), [])
            if any(row.path == path for row in rows):
                continue
            rows.append(Site(path, id(module)))
            self._kept.append(module)  # an id is only a name as long as its module lives
            for parameter in module._parameters.values():
                if parameter is not None:
                    self.owners.setdefault(id(parameter), rows[0])


def paths(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Every module with its qualified name, parents first; a shared one comes under each of its names."""
    yield path, module
    for name, child in module._modules.items():
        if child is not None:
            yield from paths(child, f"{path}.{name}" if path else name)


def _common(path: str, other: str) -> int:
    """How many leading names two paths share."""
    shared = 0
    for mine, theirs in zip(path.split("."), other.split("."), strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared
