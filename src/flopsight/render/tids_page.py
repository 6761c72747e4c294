"""The older profilers' TIDSProfiler text: every module with its latency and the shapes that went in and came out."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.tables import mark, with_depths
from ..files.printable import printable
from ..results.node import Node
from ..results.profile import Profile
from ..results.records import OUTSIDE, Shape
from .deepspeed_lines import doubts

INDENT = " " * 8
NO_TIME = "Latency was not measured: the latencies above are 0."


def render(profile: Profile, *, depth: int | None = None) -> str:
    """One line a module, submodules indented by eight spaces."""
    whole = profile.root.latency or 0.0
    rows = [
        (node, level)
        for node, level, _ in with_depths(profile.root)
        if node.path != OUTSIDE and (depth is None or level <= depth)
    ]
    lines = [INDENT * level + _line(node, node.name if level else "model", whole) for node, level in rows]
    lines += [] if whole else [NO_TIME]
    return "\n".join([*lines, *doubts(profile)]) + "\n"


def _line(node: Node, name: str, whole: float) -> str:
    time = node.latency or 0.0
    parts = [
        printable(f"({name}): {node.kind}"),
        f"num_params {node.params}",
        f"{round(time * 1e3, 3)}ms",
        f"{round(100 * time / whole if whole else 0.0, 3)}% latency",
        f"input shape {_shapes(node.input_shapes)}",
        f"output shape {_shapes(node.output_shapes)}",
    ]
    return ", ".join([*parts, *([mark(node)] if mark(node) else [])])


def _shapes(shapes: Sequence[Shape]) -> str:
    """One shape bare, several as a list of shapes."""
    lists = [list(shape) for shape in shapes]
    return str(lists[0] if len(lists) == 1 else lists)
