"""Which module are we in? The one file that assigns into torch, and puts back what was there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

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
        if call is not found:  # every class below hears of an assignment, and forgets what it knew of its attributes
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
