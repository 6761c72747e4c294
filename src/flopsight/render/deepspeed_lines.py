"""Lines that the older profilers' text formats have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import units
from ..analysis.tables import KindTotals, depth_table, modules
from ..files.printable import one_line, printable
from ..results.caveats import UnknownOps
from ..results.node import Node
from ..results.profile import Profile


def rule(title: str, dashes: int) -> str:
    """A title between dashes."""
    return f"{'-' * dashes} {title} {'-' * dashes}"


def fact(label: str, value: str) -> str:
    """A line of the summary."""
    return f"{label + ': ':<60}  {value:<8}"


def _top(
    kinds: Mapping[str, KindTotals], most: int, figure: Callable[[KindTotals], float], text: Callable[[Any], str]
) -> dict[str, str]:
    """The classes with the largest figure; a stable order keeps the model's for equals."""
    ranked = sorted(kinds.items(), key=lambda item: figure(item[1]), reverse=True)
    return {name: text(figure(totals)) for name, totals in ranked[:most]}


Ranking = tuple[str, Callable[[KindTotals], float], Callable[[Any], str]]
"""What stands before a ranking of classes, the figure that they are ranked by, and how it is written."""


def by_depth(root: Node, depth: int | None, most: int, figures: str, rankings: Sequence[Ranking]) -> list[str]:
    """For every depth the classes with the largest figures."""
    lines = [
        rule("Aggregated Profile per GPU", 29),
        f"Top {most} modules in terms of {figures} at different model depths:",
    ]
    for level, kinds in enumerate(depth_table(root, depth)):
        lines.append(f"depth {level}:")
        lines += [f"    {label:<12}- {_top(kinds, most, figure, text)}" for label, figure, text in rankings]
    return lines


def doubts(profile: Profile) -> list[str]:
    """A line that names what is not counted, where anything is not, and one for every other doubt."""
    unknown = profile.coverage.unknown
    ops = ", ".join(f"{op} ({units.calls(missed.calls)})" for op, missed in unknown.items())
    lines = [f"Not counted: {ops}. Say what they cost with @flopsight.formula."] if unknown else []
    lines += [f"Caveat: {caveat}" for caveat in profile.caveats if not isinstance(caveat, UnknownOps)]
    return list(map(one_line, lines))


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
