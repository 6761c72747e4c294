"""The older profilers' TIDSProfiler text: every module with its latency and the shapes that went in and came out."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.tables import mark, modules
from ..records import Shape
from ..tree import Node, Profile
from .deepspeed_lines import doubts

INDENT = " " * 8
NO_TIME = "Latency was not measured: the latencies above are 0."


def render(profile: Profile, *, depth: int | None = None) -> str:
    """One line a module, submodules indented by eight spaces."""
    whole = profile.root.latency or 0.0
    lines = _lines(profile.root, "model", whole, 0, depth)
    lines += [] if whole else [NO_TIME]
    return "\n".join([*lines, *doubts(profile)]) + "\n"


def _lines(node: Node, name: str, whole: float, level: int, depth: int | None) -> list[str]:
    time = node.latency or 0.0
    parts = [
        f"({name}): {node.kind}",
        f"num_params {node.params}",
        f"{round(time * 1e3, 3)}ms",
        f"{round(100 * time / whole if whole else 0.0, 3)}% latency",
        f"input shape {_shapes(node.input_shapes)}",
        f"output shape {_shapes(node.output_shapes)}",
    ]
    lines = [INDENT * level + ", ".join([*parts, *([mark(node)] if mark(node) else [])])]
    if depth is None or level < depth:
        for child in modules(node.children):
            lines += _lines(child, child.name, whole, level + 1, depth)
    return lines


def _shapes(shapes: Sequence[Shape]) -> str:
    """One shape bare, several as a list of shapes."""
    lists = [list(shape) for shape in shapes]
    return str(lists[0] if len(lists) == 1 else lists)
