"""What Python files say without being run: the names a file binds, and the arguments of its classes and functions."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

DYNAMIC = ("globals", "setattr", "exec", "vars")
"""Functions with which a file can bind names that its text does not show."""


PLAIN_TYPES = {"int": int, "float": float, "bool": bool, "str": str}


@dataclass(frozen=True)
class Arguments:
    """The arguments of a class or function, as far as the source says."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    takes_any: bool
    """Whether there is a `**kwargs`."""
    hints: Mapping[str, Any] = field(default_factory=dict)
    """Annotations that are plain types."""


class SourceFile:
    """A Python file, read and not run."""

    def __init__(self, path: Path) -> None:
        self._tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"), filename=str(path))

    @cached_property
    def definitions(self) -> dict[str, ast.ClassDef | ast.FunctionDef]:
        """Classes and functions at the top of the file."""
        return {node.name: node for node in _statements(self._tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}

    @cached_property
    def names(self) -> set[str] | None:
        """Every name that the file binds at its top; None where only running it can tell."""
        found: set[str] = set()
        for node in _statements(self._tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                found.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.stmt):
                found.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        calls = (node.func for node in ast.walk(self._tree) if isinstance(node, ast.Call))
        hidden = any(isinstance(call, ast.Name) and call.id in DYNAMIC for call in calls)
        return None if hidden or found & {"*", "__getattr__"} else found

    def arguments(self, name: str) -> Arguments | None:
        """The arguments of a class or function of this file; None where only running it can tell."""
        node = self.definitions.get(name)
        if node is None or node.decorator_list:
            return None
        if isinstance(node, ast.FunctionDef):
            return _arguments(node.args, skip=0)
        if node.keywords:  # a metaclass may take the call over
            return None
        makers = [inner for inner in node.body if isinstance(inner, ast.FunctionDef) and inner.name == "__init__"]
        if any(isinstance(inner, ast.FunctionDef) and inner.name == "__new__" for inner in node.body):
            return None
        if makers:
            return None if makers[0].decorator_list else _arguments(makers[0].args, skip=1)
        if len(node.bases) != 1 or not isinstance(node.bases[0], ast.Name):
            return _bare_module(node)
        return self.arguments(node.bases[0].id)


def _bare_module(node: ast.ClassDef) -> Arguments | None:
    """A class that adds no `__init__` to `nn.Module` takes no arguments."""
    if [ast.unparse(base) for base in node.bases] in (["nn.Module"], ["torch.nn.Module"]):
        return Arguments((), (), takes_any=False)
    return None


def _arguments(given: ast.arguments, skip: int) -> Arguments | None:
    hints = {a.arg: a.annotation for a in [*given.posonlyargs, *given.args, *given.kwonlyargs] if a.annotation}
    if any(_names_a_class(hint) for hint in hints.values()):
        return None  # perhaps a dataclass, whose fields can be changed too
    positional = [argument.arg for argument in [*given.posonlyargs, *given.args]]
    without_default = positional[: len(positional) - len(given.defaults)]
    keyword_only = [argument.arg for argument in given.kwonlyargs]
    needed = [
        argument.arg for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None
    ]
    return Arguments(
        (*positional[skip:], *keyword_only),
        (*without_default[skip:], *needed),
        takes_any=given.kwarg is not None,
        hints={
            name: PLAIN_TYPES[hint.id]
            for name, hint in hints.items()
            if isinstance(hint, ast.Name) and hint.id in PLAIN_TYPES
        },
    )


def _names_a_class(hint: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and not hasattr(builtins, node.id) for node in ast.walk(hint))


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements at the top of a file, also inside its `if`, `try` and `with`; not those inside definitions."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.ExceptHandler):
            yield from _statements(node)
