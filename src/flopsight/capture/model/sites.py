"""The rows of a profile: which row a module call belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from weakref import WeakSet

from torch import nn

from ...results.records import OUTSIDE
from ..hooks import internals
from .wrappers import compiled_from


class Site:
    """One row of the profile: a qualified name in the model."""

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
    Without a model, every module called from outside all others becomes a root of its own, if it is admitted.
    """

    def __init__(
        self, model: nn.Module | None = None, admits: Callable[[nn.Module], bool] = lambda _module: True
    ) -> None:
        self.outside = Site(OUTSIDE)
        self.roots: dict[str, nn.Module] = {}
        self.owners: dict[int, Site] = {}
        self.on_root: Callable[[nn.Module], None] | None = None
        """Called with every root that is found while watching."""
        self.compiled = False
        """Whether a model came in a wrapper of torch.compile."""
        self.single_rows: dict[int, Site] = {}
        """Fast path of `find`: modules that have exactly one row, by id."""
        self._admits = admits
        self._rows: dict[int, list[Site]] = {}
        self.modules: list[nn.Module] = []
        """Every module that has a row. They are kept alive: an id is only a name as long as its module lives."""
        self._foreign: WeakSet[nn.Module] = WeakSet()
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
        return max(rows, key=lambda row: (_common(row.path, caller.path), -row.path.count("."))) if rows else caller

    def row(self, module: nn.Module) -> Site | None:
        """The first row of a module, if it is part of what is watched."""
        rows = self._rows.get(id(module))
        return rows[0] if rows else None

    @property
    def whole(self) -> nn.Module:
        """The one root, or a holder of them all."""
        if len(self.roots) == 1:
            return next(iter(self.roots.values()))
        holder = nn.Module()
        for name, root in self.roots.items():
            holder.add_module(name, root)
        return holder

    @property
    def passed_by(self) -> list[str]:
        """Names of the classes of modules that were called and belong to no watched model."""
        return sorted({type(module).__name__ for module in self._foreign})

    def _meet(self, module: nn.Module, caller: Site) -> list[Site]:
        """A module not seen before: added during the run, foreign to the model, or the root of a recording."""
        if module in self._foreign:
            return []
        inner = compiled_from(module)
        if inner is not module:
            self.compiled = True
            same = self._rows.get(id(inner)) or self._meet(inner, caller)
            if same and internals.bypasses_call(module):
                self._rows[id(module)] = same
                self.modules.append(module)
                return same
            self._foreign.add(module)  # the call that follows, of the module inside, is the one to note
            return []
        if self._model is None and caller is self.outside:
            if self._admits(module):
                self._add_root(module)
        else:
            for path, root in self.roots.items():
                if any(found is module for found in root.modules()):
                    self._add(path, root)
        rows = self._rows.get(id(module))
        if rows is None:
            self._foreign.add(module)
        return rows or []

    def _add_root(self, module: nn.Module) -> None:
        """A single root is the profile's root; from the second on, roots go by their class names below a common one."""
        if self.on_root is not None:
            self.on_root(module)
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
            key = id(module)
            rows = self._rows.get(key)
            if not rows:
                row = Site(path, key)
                self._rows[key], self.single_rows[key] = [row], row
                self.modules.append(module)
            elif all(row.path != path for row in rows):
                self.single_rows.pop(key, None)
                rows.append(Site(path, key))
            else:
                continue
            for parameter in module._parameters.values():
                if parameter is not None:
                    self.owners.setdefault(id(parameter), self._rows[key][0])


def sites_of(model: nn.Module | Sites | None) -> Sites:
    """The rows of a model; `Sites` that exist already are returned as they are."""
    return model if isinstance(model, Sites) else Sites(model)


def paths(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Every module with its qualified name, parents first; a shared one comes under each of its names.

    A module that is registered below itself, as a parent that a child refers to, has no name there.
    """
    waiting: list[tuple[str | None, nn.Module]] = [(path, module)]
    above: set[int] = set()
    while waiting:
        name, module = waiting.pop()
        if name is None:  # everything below it was there
            above.discard(id(module))
            continue
        yield name, module
        if module._modules:
            above.add(id(module))
            waiting.append((None, module))
            below = [(key, child) for key, child in module._modules.items() if child is not None]
            waiting += [
                (f"{name}.{key}" if name else key, child) for key, child in reversed(below) if id(child) not in above
            ]


def _common(path: str, other: str) -> int:
    """How many leading names two paths share."""
    shared = 0
    for mine, theirs in zip(path.split("."), other.split("."), strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared
