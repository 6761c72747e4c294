"""How the fields of several nodes become those of one row: each field of `Node` has one rule, and it stands here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ..results.comm import merged as merged_comm
from ..results.costs import OpRow, Phases, known_sum, summed
from ..results.node import Node
from ..results.records import BACKWARD, FORWARD, Parameter


@dataclass(frozen=True, eq=False, repr=False)
class Group(Node):
    """A row that stands for more than one module; its figures are their sums."""

    times: int = 1
    """Like modules drawn as one."""
    hidden: int = 0
    """Submodules that are not drawn."""


@dataclass(frozen=True)
class Rule:
    """What becomes of one field."""

    merge: Callable[[Sequence[Any]], Any]
    """The values of several modules as the value of one row."""
    own: bool = False
    """The value leaves submodules out, so a row that hides its submodules merges theirs into its own."""
    phase: str = ""
    """The phase that the value was measured in; it goes when that phase is left out."""


def merged_ops(rows: Iterable[OpRow]) -> tuple[OpRow, ...]:
    """Op rows of several modules as those of one."""
    keyed = (((row.op, row.phase, row.status, row.dtype, row.cost.intensity_step), row) for row in rows)
    return tuple(summed(keyed).values())


def _distinct(values: Sequence[tuple[Parameter, ...]]) -> tuple[Parameter, ...]:
    """Each tensor once, also if several modules share it."""
    return tuple({parameter.key: parameter for held in values for parameter in held}.values())


def _rows(merge: Callable[[Iterable[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    return lambda values: merge(row for rows in values for row in rows)


def _if_alike(values: Sequence[Any]) -> Any:
    """The value that all have, else an empty one."""
    first = values[0]
    return first if all(value == first for value in values) else type(first)()


RULES: Mapping[str, Rule] = {
    "own": Rule(lambda values: sum(values, start=Phases()), own=True),
    "parameters": Rule(_distinct, own=True),
    "calls": Rule(sum),
    "input_shapes": Rule(_if_alike),
    "output_shapes": Rule(_if_alike),
    "input_bytes": Rule(sum),
    "output_bytes": Rule(sum),
    "latency": Rule(known_sum, phase=FORWARD),
    "backward_latency": Rule(known_sum, phase=BACKWARD),
    "host_latency": Rule(known_sum, phase=FORWARD),
    "stream_latency": Rule(known_sum, phase=FORWARD),
    "own_activation_bytes": Rule(sum, own=True),
    "allocated_bytes": Rule(known_sum),
    "own_peak_bytes": Rule(sum, own=True),
    "packed_bytes": Rule(sum, own=True),
    "ops": Rule(_rows(merged_ops), own=True),
    "comm": Rule(_rows(merged_comm), own=True),
    "setup_comm": Rule(_rows(merged_comm), own=True),
    "extra_repr": Rule(_if_alike),
    "ignored": Rule(all),
}
"""The rule of every field that is not the node's place in the tree."""
PLACE = ("path", "name", "kind", "children")
"""The fields that say where a node stands and what it is: `merged` takes them as arguments."""


def merged(
    nodes: Sequence[Node], *, path: str, name: str, kind: str, children: tuple[Node, ...] = (), **group: Any
) -> Group:
    """Several modules as one row, whose figures are theirs together; `group` holds the fields of `Group`."""
    values: dict[str, Any] = {
        field: rule.merge([getattr(node, field) for node in nodes]) for field, rule in RULES.items()
    }
    return Group(path=path, name=name, kind=kind, children=children, **values, **group)


def closed(node: Node) -> Node:
    """The same module without its submodules, whose figures it now calls its own."""
    if not node.children:
        return node
    subtree = list(node.walk())
    gathered: dict[str, Any] = {
        field: rule.merge([getattr(each, field) for each in subtree]) for field, rule in RULES.items() if rule.own
    }
    calls = node.calls or int(node.called)
    kept = {field.name: getattr(node, field.name) for field in fields(node)}
    return Group(**(kept | gathered | {"children": (), "calls": calls, "hidden": len(subtree) - 1}))


def without_phases(node: Node, left_out: Sequence[str], children: tuple[Node, ...]) -> Node:
    """The node with new children and without the times that were measured in the phases left out."""
    gone: dict[str, Any] = {field: None for field, rule in RULES.items() if rule.phase in left_out}
    return replace(node, children=children, **gone)
