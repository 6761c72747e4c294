"""A module tree in the shape of torch's `print(model)`, with figures in front of every module's own text."""

from __future__ import annotations

from collections.abc import Callable

from ..analysis.tables import modules
from ..files.printable import printable
from ..results.node import Node

Described = Callable[[Node], str]


def module_repr(root: Node, describe: Described, depth: int | None = None) -> list[str]:
    """The lines of `Kind(...)`: a leaf on one line, else its own text first and its submodules below, down to `depth`."""
    lines: list[str] = []
    waiting: list[tuple[Node, int] | str] = [(root, 0)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):  # the end of a module whose submodules are done
            lines.append(item)
            continue
        node, level = item
        indent = "  " * level
        head = printable(f"{indent}({node.name}): {node.kind}" if level else node.kind)
        children = modules(node.children) if depth is None or level < depth else []
        text = printable(describe(node), keep="\n").split("\n")
        if not children and len(text) == 1:
            lines.append(f"{head}({text[0]})")
            continue
        lines += [f"{head}(", *(f"{indent}  {line}" for line in text)]
        waiting.append(f"{indent})")
        waiting.extend((child, level + 1) for child in reversed(children))
    return lines
