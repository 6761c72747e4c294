"""What Python files say without being run: the names a file binds, and the arguments of its classes and functions."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

DYNAMIC = ("globals", "setattr", "exec", "vars")
"""Functions with which a file can bind names that its text does not show."""


NO_DATACLASSES = ("typing", "collections", "collections.abc", "enum", "pathlib", "torch", "torch.nn")
"""Modules whose names in an annotation are certainly no dataclass."""
PLAIN_TYPES = {"int": int, "float": float, "bool": bool, "str": str}


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
        """Every name that the file binds at its top; None if only running it can tell."""
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

    def signature(self, name: str) -> inspect.Signature | None:
        """What a class or function of this file is called with; None if only running it can tell."""
        node = self.definitions.get(name)
        if node is None or node.decorator_list:
            return None
        if isinstance(node, ast.FunctionDef):
            return self._call(node.args, skip=0)
        if node.keywords:  # a metaclass may take the call over
            return None
        methods = {inner.name: inner for inner in node.body if isinstance(inner, ast.FunctionDef)}
        if "__new__" in methods:
            return None
        if "__init__" in methods:
            made = methods["__init__"]
            return None if made.decorator_list else self._call(made.args, skip=1)
        if len(node.bases) == 1 and isinstance(node.bases[0], ast.Name):
            return self.signature(node.bases[0].id)
        bare = [ast.unparse(base) for base in node.bases] in (["nn.Module"], ["torch.nn.Module"])
        return inspect.Signature() if bare else None

    def forward(self, name: str) -> inspect.Signature | None:
        """What the forward of a class takes; None if only running the file can tell."""
        node = self.definitions.get(name)
        if not isinstance(node, ast.ClassDef) or node.decorator_list or node.keywords:
            return None
        methods = {inner.name: inner for inner in node.body if isinstance(inner, ast.FunctionDef)}
        bound = [n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
        if "__call__" in methods or "__new__" in methods or "forward" in bound:
            return None
        if "forward" in methods:
            return None if methods["forward"].decorator_list else _signature(methods["forward"].args)
        base = node.bases[0] if len(node.bases) == 1 else None
        return self.forward(base.id) if isinstance(base, ast.Name) else None

    def _call(self, given: ast.arguments, skip: int) -> inspect.Signature | None:
        hints = [a.annotation for a in [*given.posonlyargs, *given.args, *given.kwonlyargs] if a.annotation]
        named = {node.id for hint in hints for node in ast.walk(hint) if isinstance(node, ast.Name)}
        if any(name not in self._plain_classes and not hasattr(builtins, name) for name in named):
            return None  # it may be a dataclass, and its fields can be changed too
        return _signature(given, skip)

    @cached_property
    def _plain_classes(self) -> set[str]:
        """Names that are certainly no dataclass: classes of this file without decorator, and imports of known modules."""
        found = {
            name
            for name, node in self.definitions.items()
            if isinstance(node, ast.ClassDef)
            and not node.decorator_list
            and all(ast.unparse(base).endswith(("Enum", "nn.Module")) for base in node.bases)
        }
        for node in _statements(self._tree):
            if isinstance(node, ast.Import):
                found.update(alias.asname or alias.name for alias in node.names if alias.name in NO_DATACLASSES)
            elif isinstance(node, ast.ImportFrom) and node.module in NO_DATACLASSES:
                found.update(alias.asname or alias.name for alias in node.names)
        return found


class _Written:
    """The default of an argument, as the file writes it."""

    def __init__(self, default: ast.expr) -> None:
        self._text = ast.unparse(default)

    def __repr__(self) -> str:
        """The text."""
        return self._text


def _signature(given: ast.arguments, skip: int = 1) -> inspect.Signature:
    """What a function takes, with the annotations that are plain types; `skip=1` leaves out a method's `self`."""
    kinds = inspect.Parameter
    positional = [(a, kinds.POSITIONAL_ONLY) for a in given.posonlyargs] + [
        (a, kinds.POSITIONAL_OR_KEYWORD) for a in given.args
    ]
    defaults: list[ast.expr | None] = [*[None] * (len(positional) - len(given.defaults)), *given.defaults]
    made = [_parameter(a, kind, default) for (a, kind), default in zip(positional, defaults, strict=True)][skip:]
    if given.vararg:
        made.append(kinds(given.vararg.arg, kinds.VAR_POSITIONAL))
    made += [
        _parameter(a, kinds.KEYWORD_ONLY, default)
        for a, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    if given.kwarg:
        made.append(kinds(given.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(made)


def _parameter(argument: ast.arg, kind: Any, default: ast.expr | None) -> inspect.Parameter:
    hint = argument.annotation
    known = PLAIN_TYPES.get(hint.id) if isinstance(hint, ast.Name) else None
    is_none = isinstance(default, ast.Constant) and default.value is None
    return inspect.Parameter(
        argument.arg,
        kind,
        default=inspect.Parameter.empty if default is None else None if is_none else _Written(default),
        annotation=inspect.Parameter.empty if known is None else known,
    )


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements at the top of a file, also inside its `if`, `try` and `with`; not those inside definitions."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.ExceptHandler):
            yield from _statements(node)
