"""Lines that the older profilers' text formats have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import units
from ..analysis.tables import KindTotals, depth_table, mark, modules
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


def step_number(profile: Profile, given: int | None) -> int:
    """The step that a head names: the one given, else the profile's own."""
    return next((step for step in (given, profile.step) if step is not None), 1)


def whole_text(profile: Profile, lines: Sequence[str]) -> str:
    """A page's lines with what is doubtful about the profile below them."""
    return "\n".join([*lines, *doubts(profile), "-" * 78]) + "\n"


def row_text(node: Node, figures: Iterable[str]) -> str:
    """A module's figures, why they are zero, and its own text."""
    return ", ".join([*figures, *filter(None, [mark(node)]), node.extra_repr])


Ranking = tuple[str, Callable[[KindTotals], float], Callable[[Any], str]]
"""What stands before a ranking of classes, the figure that they are ranked by, and how it is written."""


@dataclass(frozen=True)
class Aggregate:
    """The part of a page that ranks classes at every depth."""

    figures: str
    """What they are ranked by, in words."""
    rankings: tuple[Ranking, ...]

    def lines(self, profile: Profile, depth: int | None, most: int) -> list[str]:
        """For every depth the classes with the largest figures; a stable order keeps the model's for equals."""
        lines = [
            rule("Aggregated Profile per GPU", 29),
            f"Top {most} modules in terms of {self.figures} at different model depths:",
        ]
        for level, kinds in enumerate(depth_table(profile.root, depth)):
            lines.append(f"depth {level}:")
            for label, figure, text in self.rankings:
                ranked = sorted(kinds.items(), key=lambda item: figure(item[1]), reverse=True)
                first = {name: text(figure(totals)) for name, totals in ranked[:most]}
                lines.append(f"    {label:<12}- {first}")
        return lines


def doubts(profile: Profile) -> list[str]:
    """A line that names what is not counted, if anything is not, and one for every other doubt."""
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
