"""Which module are we in? The one file that assigns into torch, and puts back what was there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
from torch import nn

from ..records import OUTSIDE
from . import internals

compiling = torch.compiler.is_compiling
Call = Callable[..., Any]
Watcher = Callable[[Call], Call]

_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class _Wrapper:
    """Something around a function in torch; `bare` where it asks `compiling` itself."""

    around: Watcher
    bare: bool


class _Patch:
    """One function in torch and those who wrap it; they nest, and may come and go in any order and on any thread."""

    def __init__(self, owner: Any, name: str) -> None:
        self.wrappers: list[_Wrapper] = []
        self.hidden: dict[int, tuple[_Wrapper, ...]] = {}
        """By thread: the wrappers that do not see its calls."""
        self.suspended = 0
        self._owner, self._name = owner, name
        self._plain: Call = getattr(owner, name)
        self._installed: Call | None = None

    def install(self) -> None:
        """Compose the wrappers over what was there before the first of them came."""
        found: Call = getattr(self._owner, self._name)
        if self._installed is None:
            self._plain = found
        elif found is not self._installed:
            return  # somebody patched over us: theirs stays on top, and ours steps aside when its wrapper has ended
        call = self._composed()
        setattr(self._owner, self._name, call)
        self._installed = None if call is self._plain else call

    def _composed(self) -> Call:
        plain = self._plain
        if not self.wrappers or self.suspended:
            return plain
        everyone = _over(plain, self.wrappers)
        if not self.hidden:
            return everyone
        chains = {
            thread: _over(plain, [wrapper for wrapper in self.wrappers if wrapper not in hidden])
            for thread, hidden in self.hidden.items()
        }

        def watched(*args: Any, **kwargs: Any) -> Any:
            if compiling():
                return plain(*args, **kwargs)
            return chains.get(threading.get_ident(), everyone)(*args, **kwargs)

        return watched


def _over(bottom: Call, wrappers: list[_Wrapper]) -> Call:
    call = bottom
    for wrapper in wrappers:
        watched = wrapper.around(call)
        call = watched if wrapper.bare else _stepping_aside(watched, bottom)
    return call


def _stepping_aside(watched: Call, bottom: Call) -> Call:
    """torch.compile follows a call into whatever is wrapped around it: what it makes must not contain us.

    Nor may it depend on who else watches, or it would be made anew whenever somebody comes or goes.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return (bottom if compiling() else watched)(*args, **kwargs)

    return call


_patches: dict[tuple[int, str], _Patch] = {}


def _patch(owner: Any, name: str) -> _Patch:
    return _patches.setdefault((id(owner), name), _Patch(owner, name))


@contextmanager
def wrapped(owner: Any, name: str, around: Watcher, *, bare: bool = False) -> Iterator[None]:
    """A function in torch with something around it, until the block ends; `bare` where that asks `compiling` itself."""
    patch, wrapper = _patch(owner, name), _Wrapper(around, bare)
    with _lock:
        patch.wrappers.append(wrapper)
        patch.install()
    try:
        yield
    finally:
        with _lock:
            patch.wrappers.remove(wrapper)
            patch.install()


def module_calls(watcher: Watcher, *, bare: bool = False) -> AbstractContextManager[None]:
    """Wrap every module call made inside the block."""
    return wrapped(nn.Module, "__call__", watcher, bare=bare)


@contextmanager
def calls_of(kind: type[nn.Module], watcher: Watcher) -> Iterator[None]:
    """Wrap the calls of one class's modules inside the block, at no cost to those of any other."""
    own: Call | None = vars(kind).get("__call__")

    def inherited(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        call: Call = super(kind, module).__call__  # type: ignore[misc]
        return call(*args, **kwargs)  # whoever watches all modules sees this one too

    call = watcher(own or inherited)
    kind.__call__ = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        if vars(kind).get("__call__") is not call:
            pass  # somebody put theirs over ours, and it stays
        elif own is not None:
            kind.__call__ = own  # type: ignore[method-assign]
        else:
            del kind.__call__


@contextmanager
def unseen() -> Iterator[None]:
    """Module calls that this thread makes inside the block are seen only by watchers that come inside it too."""
    patch, thread = _patch(nn.Module, "__call__"), threading.get_ident()
    with _lock:
        before = patch.hidden.get(thread)
        patch.hidden[thread] = tuple(patch.wrappers)
        patch.install()
    try:
        yield
    finally:
        with _lock:
            del patch.hidden[thread]
            if before is not None:
                patch.hidden[thread] = before
            patch.install()


def unpatched() -> AbstractContextManager[None]:
    """Module calls as torch has them: what torch.compile makes inside the block does not depend on anybody watching.

    Where compiled code runs as plain Python, nothing is made, and those who watch go on.
    """
    return _suspended(lambda _patch: not internals.runs_eager())


def unpatched_if_alone() -> AbstractContextManager[None]:
    """Module calls as torch has them, if only one watches: it has what it wants, and need not slow the rest."""
    return _suspended(lambda patch: len(patch.wrappers) == 1)


@contextmanager
def _suspended(when: Callable[[_Patch], bool]) -> Iterator[None]:
    patch = _patch(nn.Module, "__call__")
    with _lock:
        suspends = when(patch)
        patch.suspended += suspends
        patch.install()
    try:
        yield
    finally:
        with _lock:
            patch.suspended -= suspends
            patch.install()


@contextmanager
def eager() -> Iterator[None]:
    """Compiled code runs as plain Python inside the block; what is compiled stays compiled.

    Importing the compiler takes a second, so where nobody has, that waits until somebody compiles.
    """

    def held_back(compile_: Call) -> Call:
        def compiled_late(*args: Any, **kwargs: Any) -> Any:
            internals.hold_back_compiler()
            return compile_(*args, **kwargs)

        return compiled_late

    imported = internals.compiler_imported()
    with internals.eager_stance(), nullcontext() if imported else wrapped(torch, "compile", held_back):
        yield


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
        """By module id, the row of every module that has just one: `find` in a hurry."""
        self._admits = admits
        self._rows: dict[int, list[Site]] = {}
        self._kept: list[nn.Module] = []
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
        """Classes of modules that were called and are part of nothing that is watched."""
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
                self._kept.append(module)
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
            rows = self._rows.setdefault(id(module), [])
            if any(row.path == path for row in rows):
                continue
            rows.append(Site(path, id(module)))
            self.single_rows[id(module)] = rows[0]
            if len(rows) > 1:
                del self.single_rows[id(module)]
            self._kept.append(module)  # an id is only a name as long as its module lives
            for parameter in module._parameters.values():
                if parameter is not None:
                    self.owners.setdefault(id(parameter), rows[0])


def sites_of(model: nn.Module | Sites | None) -> Sites:
    """The rows of a model; those that somebody already has stay the same ones."""
    return model if isinstance(model, Sites) else Sites(model)


def compiled_from(module: nn.Module) -> nn.Module:
    """The module that torch.compile put its wrapper around, or the module itself."""
    inner = module._modules.get("_orig_mod")
    return module if inner is None else inner


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
