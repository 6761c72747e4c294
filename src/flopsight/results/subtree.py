"""Figures of a subtree: a cached property that is made of the same property of the children."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from .node import Node

Value = TypeVar("Value")


class of_subtree(Generic[Value]):  # noqa: N801
    """A cached property of a node that is made of the same property of its children.

    Reading it fills the nodes below first, leaves before parents, so that Python's recursion limit does not
    limit how deep a model may be nested.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, node: None, owner: object = None) -> of_subtree[Value]: ...

    @overload
    def __get__(self, node: Node, owner: object = None) -> Value: ...

    def __get__(self, node: Node | None, owner: object = None) -> Value | of_subtree[Value]:
        if node is None:
            return self
        name = self._name
        missing = [node]
        for each in missing:  # grows while it is read: parents before children
            missing += [child for child in each.children if name not in child.__dict__]
        for each in reversed(missing):
            each.__dict__[name] = self._compute(each)
        found: Value = node.__dict__[name]
        return found
