"""Bytes that a compiled training step keeps and holds at its peak, by the graphs that torch.compile divides it into."""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, Node

from ..hooks.internals import CompiledGraphs, compiled_graphs, fusible_ops, is_view_op


@dataclass(frozen=True)
class CompiledBytes:
    """Bytes of one compiled step beside parameters, their gradients and inputs."""

    kept: int
    """For backward."""
    peak: int
    """The most at once while something that was kept is still to be read: this grows with the depth of a model."""
    after: int
    """The most at once after that."""


def compiled_bytes(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CompiledBytes:
    """What a step of a model without data takes if it is compiled as one graph; NotTracedError if it cannot be."""
    graphs = compiled_graphs(model, args, kwargs)
    forward, backward = _Liveness(graphs.forward), _Liveness(graphs.backward)
    returned, kept = _outputs(graphs)
    before = {node.name: _base(node) for node in graphs.forward.nodes}
    alive: dict[Any, Node] = {}  # one for each buffer: what is kept may be views of one another
    for node in graphs.backward.nodes:
        made = before.get(node.name, node)
        if node.op == "placeholder" and (made is node or made.op != "placeholder"):
            alive.setdefault(made, node)  # kept, or the gradient of what the model returns
    gradients = {_base(node) for node in _returns(graphs.backward)}
    held = sum(map(_size, returned - kept))  # by the caller, until the step is done
    peak, after = backward.peaks(alive.values(), gradients)
    return CompiledBytes(sum(map(_size, kept)), max(forward.peaks()[0], held + peak), held + after)


def _outputs(graphs: CompiledGraphs) -> tuple[set[Node], set[Node]]:
    """The buffers that the model returns, and those that are kept for backward, without its parameters and inputs."""
    (output,) = graphs.forward.find_nodes(op="output")
    outputs: Any = output.args[0]
    sides = (outputs[: graphs.returned], outputs[graphs.returned :])
    returned, kept = ({_base(node) for node in side if isinstance(node, Node)} for side in sides)
    return {node for node in returned if node.op != "placeholder"}, {node for node in kept if node.op != "placeholder"}


def _returns(graph: Graph) -> list[Node]:
    (output,) = graph.find_nodes(op="output")
    found: list[Node] = output.all_input_nodes
    return found


def _base(node: Node) -> Node:
    """The node that made the memory that a node looks at."""
    while node.op == "call_function":
        parent = node.args[0] if node.args else None
        taken = node.target is operator.getitem and isinstance(parent, Node) and _is_view(parent)
        if not isinstance(parent, Node) or not (taken or _is_view(node)):
            break
        node = parent
    return node


def _is_view(node: Node) -> bool:
    return node.op == "call_function" and callable(node.target) and is_view_op(node.target)


def _size(node: Node) -> int:
    value = node.meta.get("val")
    size = value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
    return size if isinstance(size, int) else 0  # a generator's state has a size without a number


_fused = cache(fusible_ops)


def _is_fusible(node: Node) -> bool:
    """Whether a compiler does the work in one kernel with its neighbours."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    if node.target is torch.ops.aten.scatter.value and node.args:  # one number in a constant, made where it is read
        return getattr(node.args[0], "target", None) is torch.ops.aten.full.default
    packet = getattr(node.target, "overloadpacket", node.target)
    return packet in _fused() or node.target in _fused() or torch.Tag.pointwise in getattr(node.target, "tags", ())


class _Liveness:
    """When the buffers of a graph come and go. Fused work has a buffer only if work outside the fusion reads it."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = list(graph.nodes)
        self._place = {node: place for place, node in enumerate(self._nodes)}
        self._lasting = {_base(node) for node in _returns(graph)}
        self._own = {node for node in self._nodes if node.op == "call_function" and _base(node) is node}
        self._written = {node for node in self._own if self._is_written(node)}
        self._end: dict[Node, int] = {}
        for node in reversed(self._nodes):
            self._end[node] = self._last_read(node)

    def _readers(self, node: Node) -> Iterator[Node]:
        for user in node.users:
            if user.op == "call_function" and _base(user) is not user:
                yield from self._readers(user)
            else:
                yield user

    def _is_written(self, node: Node) -> bool:
        readers = (user for user in self._readers(node) if user.op == "call_function")
        return node in self._lasting or not _is_fusible(node) or not all(map(_is_fusible, readers))

    def _last_read(self, node: Node) -> int:
        """The place of the last kernel that reads a buffer. A fused reader counts as the kernel that it is fused into."""
        if node in self._lasting:
            return len(self._nodes)
        places = [self._place[node]]
        places += [
            self._place[user] if user in self._written else self._end.get(user, 0) for user in self._readers(node)
        ]
        return max(places)

    def peaks(self, there: Collection[Node] = (), elsewhere: Collection[Node] = ()) -> tuple[int, int]:
        """The peak until all that is `there` from the beginning is gone, and the peak after; `elsewhere` is not counted."""
        given: dict[int, int] = defaultdict(int)
        own: dict[int, int] = defaultdict(int)
        for node in there:
            given[self._end[node]] += _size(node)
        alive = sum(given.values())
        until, after, end = alive, 0, max(given, default=len(self._nodes))
        for place, node in enumerate(self._nodes):
            if _is_fusible(node):  # it writes where it has read, but never into what it was given
                alive -= own.pop(place, 0)
            if node in self._written and node not in elsewhere:
                alive += _size(node)
                own[self._end[node]] += _size(node)
                until, after = (max(until, alive), after) if place <= end else (until, max(after, alive))
            alive -= own.pop(place, 0) + given.pop(place, 0)
        return until, after
