"""Functions of torch with wrappers around them: module calls above all. What was there before is put back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any
from weakref import ref

import torch
from torch import nn

from ...files.around_imports import AroundImports
from . import internals
from .recursion import deeper_recursion
from .shared import Shared

compiling = torch.compiler.is_compiling
Call = Callable[..., Any]
Watcher = Callable[[Call], Call]
FRAMES = 2
"""Upper bound of the Python frames that a watcher adds to a module call, as a multiple of the plain call's frames."""


@dataclass(frozen=True, eq=False)
class _Wrapper:
    """A wrapper around a function in torch; `bare` if it asks `compiling` itself."""

    around: Watcher
    bare: bool
    thread: int = field(default_factory=threading.get_ident)
    """The thread that put it there."""


@dataclass(frozen=True)
class _Layer:
    """A function of ours that another patch was put over, and which that patch still calls."""

    plain: Call
    installed: ref[Call]
    """Weak: it holds the wrappers, and they hold models; it is gone when the other patch is."""
    wrappers: tuple[_Wrapper, ...]
    """Those of its wrappers that are still in use."""


class _Patch(Shared[_Wrapper]):
    """One function in torch and the wrappers around it; they nest, and may come and go in any order and on any thread."""

    def __init__(self, owner: Any, name: str) -> None:
        super().__init__(lambda: None)
        self.hidden: dict[int, tuple[_Wrapper, ...]] = {}
        """By thread: the wrappers that do not see its calls."""
        self.suspended = 0
        self.resting: set[_Wrapper] = set()
        """Wrappers that need not see calls as long as there are no others."""
        self._owner, self._name = owner, name
        self._plain: Call = self._found()
        self._installed: Call | None = None
        self._inside: list[_Wrapper] = []
        """The wrappers in `_installed`."""
        self._buried: list[_Layer] = []
        """Our functions below patches of others."""

    def settle(self) -> None:
        """Compose the wrappers over the function that was there before the first of them.

        A patch that was put over ours stays: it calls the wrappers that were there, and later ones go over it.
        """
        if not self.users:  # a block that ended at the end of Python's recursion could not undo these
            self.suspended = 0
            self.hidden.clear()
            self.resting.clear()
        found = self._found()
        if found is not self._installed:
            self._step_over(found)
        self._buried = [
            replace(layer, wrappers=tuple(wrapper for wrapper in layer.wrappers if wrapper in self.users))
            for layer in self._buried
            if layer.installed() is not None
        ]
        call = self._composed()
        if call is not found:  # an assignment makes Python drop the attribute caches of every class below
            self._put(call)
        self._installed = None if call is self._plain else call
        self._inside = self._reachable

    def _found(self) -> Call:
        """What is there now."""
        call: Call = getattr(self._owner, self._name)
        return call

    def _put(self, call: Call) -> None:
        setattr(self._owner, self._name, call)

    def suspend(self, by: int) -> None:
        """Take the wrappers off (1) or put them back (-1); they stay off while any block wants it."""
        with self.lock:
            self.suspended = max(0, self.suspended + by)
            self.settle()

    def _step_over(self, found: Call) -> None:
        """Treat the installed function as the plain one, or return to our earlier layer below it."""
        under = [number for number, layer in enumerate(self._buried) if layer.installed() is found]
        if under:
            layer = self._buried[under[0]]
            del self._buried[under[0] :]
            self._plain, self._installed = layer.plain, found
            return
        if self._installed is not None:
            self._buried.append(_Layer(self._plain, ref(self._installed), tuple(self._inside)))
        self._plain, self._installed, self._inside = found, None, []

    @property
    def _reachable(self) -> list[_Wrapper]:
        """The wrappers that no patch of others calls already."""
        below = [wrapper for layer in self._buried for wrapper in layer.wrappers]
        return [wrapper for wrapper in self.users if wrapper not in below]

    def give_back(self, module: ModuleType) -> None:
        """Give a module the plain function wherever one of its names is ours."""
        with self.lock:
            if self._installed is not None:
                for name in [name for name, value in vars(module).items() if value is self._installed]:
                    setattr(module, name, self._plain)

    def _composed(self) -> Call:
        plain, wrappers = self._plain, self._reachable if self._buried else self.users
        if self.suspended or self.resting.issuperset(wrappers):
            return plain
        everyone = _over(plain, wrappers)
        if not self.hidden:
            return everyone
        chains = {
            thread: _over(plain, [wrapper for wrapper in wrappers if wrapper not in hidden])
            for thread, hidden in self.hidden.items()
        }

        def watched(*args: Any, **kwargs: Any) -> Any:
            if compiling():
                return plain(*args, **kwargs)
            return chains.get(threading.get_ident(), everyone)(*args, **kwargs)

        return watched


class _ClassPatch(_Patch):
    """The calls of one class's modules; a class that inherits `__call__` has none of its own afterwards."""

    def __init__(self, kind: type[nn.Module]) -> None:
        def inherited(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            call: Call = super(kind, module).__call__  # type: ignore[misc]
            return call(*args, **kwargs)  # a wrapper around all module calls sees this one too

        self._inherited = inherited
        super().__init__(kind, "__call__")

    def _found(self) -> Call:
        call: Call = vars(self._owner).get("__call__", self._inherited)
        return call

    def _put(self, call: Call) -> None:
        if call is self._inherited:
            del self._owner.__call__
        else:
            self._owner.__call__ = call


def _over(bottom: Call, wrappers: list[_Wrapper]) -> Call:
    call = bottom
    for wrapper in wrappers:
        watched = wrapper.around(call)
        call = watched if wrapper.bare else _stepping_aside(watched, bottom)
    return call


def _stepping_aside(watched: Call, bottom: Call) -> Call:
    """Call the plain function while torch compiles: compiled code must not contain our wrapper.

    Nor may it depend on the other wrappers, or torch would compile again whenever one of them comes or goes.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return (bottom if compiling() else watched)(*args, **kwargs)

    return call


_patches: dict[tuple[int, str], _Patch] = {}
_class_patches: dict[type[nn.Module], _ClassPatch] = {}
"""Those of classes whose calls are wrapped now."""
LOOP_CALLS: tuple[tuple[Any, str], ...] = (
    (nn.Module, "__call__"),
    (torch.autograd, "backward"),
    (torch.autograd, "grad"),
    (torch.amp.GradScaler, "step"),
)
"""What a watcher of a user's loop wraps."""


def _patch(owner: Any, name: str) -> _Patch:
    return _patches.setdefault((id(owner), name), _Patch(owner, name))


@contextmanager
def wrapped(owner: Any, name: str, around: Watcher, *, bare: bool = False) -> Iterator[None]:
    """Wrap a function of torch until the block ends; `bare` if the wrapper itself asks whether torch is compiling."""
    wrapper = _Wrapper(around, bare)
    with _imports.used_by(wrapper), _patch(owner, name).used_by(wrapper):
        yield


def inside(context: Callable[[], AbstractContextManager[Any]]) -> Watcher:
    """A wrapper that makes every call in a context of its own."""

    def around(plain: Call) -> Call:
        def call(*args: Any, **kwargs: Any) -> Any:
            with context():
                return plain(*args, **kwargs)

        return call

    return around


@contextmanager
def _unpatched_import(module: ModuleType) -> Iterator[None]:
    """Let a module that is being imported find torch as it is: what it keeps of a function has no wrapper around it.

    A patch is taken off while its own thread imports, and calls no modules. A patch of other threads stays, since a
    module call there would be missed; the names that the new module got from it are set right afterwards.
    """
    thread = threading.get_ident()
    alone = [patch for patch in tuple(_patches.values()) if {wrapper.thread for wrapper in patch.users} <= {thread}]
    with _suspended(alone):
        yield
    for patch in tuple(_patches.values()):
        patch.give_back(module)


_imports: Shared[_Wrapper] = Shared(AroundImports(_unpatched_import).install)


@contextmanager
def module_calls(watcher: Watcher, *, bare: bool = False) -> Iterator[None]:
    """Wrap every module call made inside the block."""
    with deeper_recursion(FRAMES), wrapped(nn.Module, "__call__", watcher, bare=bare):
        yield


@contextmanager
def calls_of(kind: type[nn.Module], watcher: Watcher) -> Iterator[None]:
    """Wrap the calls of one class's modules inside the block; modules of other classes pay nothing."""
    patch = _class_patches.get(kind) or _class_patches.setdefault(kind, _ClassPatch(kind))
    try:
        with patch.used_by(_Wrapper(watcher, bare=True)):
            yield
    finally:
        if not patch.users:
            _class_patches.pop(kind, None)


@contextmanager
def unseen() -> Iterator[None]:
    """Hide what this thread runs from the watchers of a loop that are there when the block begins."""
    with ExitStack() as stack:
        for patch in [*(_patch(owner, name) for owner, name in LOOP_CALLS), *_class_patches.values()]:
            if patch.users:
                stack.enter_context(_hidden(patch))
        yield


@contextmanager
def _hidden(patch: _Patch) -> Iterator[None]:
    """Hide this thread's calls of one function from the wrappers around it."""
    thread = threading.get_ident()
    with patch.lock:
        before = patch.hidden.get(thread)
        patch.hidden[thread] = tuple(patch.users)
        patch.settle()
    try:
        yield
    finally:
        with patch.lock:
            patch.hidden.pop(thread, None)
            if before is not None:
                patch.hidden[thread] = before
            patch.settle()


def unpatched() -> AbstractContextManager[None]:
    """Take all wrappers off module calls, so that what torch.compile makes inside the block does not depend on them.

    If compiled code runs as plain Python, nothing is compiled, and the wrappers stay.
    """
    return _suspended([] if internals.runs_eager() else [_patch(nn.Module, "__call__")])


@contextmanager
def unpatched_if_alone() -> Iterator[None]:
    """Take the wrapper off module calls while it is the only one: it has seen its call and need not slow the calls inside.

    One that another thread adds meanwhile brings it back: that thread's calls have to be seen.
    """
    patch = _patch(nn.Module, "__call__")
    with patch.lock:
        alone = patch.users[:] if len(patch.users) == 1 else []
        patch.resting.update(alone)
        patch.settle()
    try:
        yield
    finally:
        with patch.lock:
            patch.resting.difference_update(alone)
            patch.settle()


@contextmanager
def _suspended(patches: Sequence[_Patch]) -> Iterator[None]:
    """Take patches off inside the block."""
    for patch in patches:
        patch.suspend(1)
    try:
        yield
    finally:
        for patch in patches:
            patch.suspend(-1)


@contextmanager
def eager() -> Iterator[None]:
    """Run compiled code as plain Python inside the block; what is compiled stays compiled.

    Importing the compiler takes a second. If it is not imported yet, that waits until `torch.compile` is called.
    """

    def held_back(compile_: Call) -> Call:
        def compiled_late(*args: Any, **kwargs: Any) -> Any:
            internals.hold_back_compiler()
            return compile_(*args, **kwargs)

        return compiled_late

    imported = internals.compiler_imported()
    with internals.eager_stance(), nullcontext() if imported else wrapped(torch, "compile", held_back):
        yield
