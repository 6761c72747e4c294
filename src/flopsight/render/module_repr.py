"""A module tree in the shape of torch's `print(model)`, with figures in front of every module's own text."""

from __future__ import annotations

from collections.abc import Callable

from ..analysis.tables import modules
from ..tree import Node

Described = Callable[[Node], str]


def module_repr(node: Node, describe: Described, depth: int | None = None) -> list[str]:
    """The lines of `Kind(...)`: a leaf on one line, else its own text first and its submodules below, down to `depth`."""
    children = modules(node.children) if depth is None or depth > 0 else []
    text = describe(node).split("\n")
    if not children and len(text) == 1:
        return [f"{node.kind}({text[0]})"]
    inside = list(text)
    for child in children:
        first, *rest = module_repr(child, describe, None if depth is None else depth - 1)
        inside += [f"({child.name}): {first}", *rest]
    return [f"{node.kind}(", *(f"  {line}" for line in inside), ")"]
