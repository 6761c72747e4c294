"""Through which calls of the model a backward goes, read from the graph that it will run.

A call is counted on a twin whose backward begins at the default loss. The loop's own backward may leave a call out
(its output was detached), use some of its outputs only, or run products that the loop itself made. The graph tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge

from ...capture.hooks import internals
from ...capture.model.model_run import own_losses
from ...capture.model.tensors import tensors_in
from ...capture.model.training_state import first_node

PRODUCTS = (
    "mm", "mv", "dot", "linear", "conv", "attention", "dist", "rnn", "lstm", "gru", "compiled",
    "linalg", "cholesky", "ormqr", "solve",
)  # fmt: skip
"""Parts of the names of autograd's nodes that do matrix work."""
ELEMENTWISE = ("linalgvectornorm", "linalgcross", "upsample", "resolve")
"""Parts of the names of those that only look like it."""
Shapes = tuple[tuple[int, ...] | None, ...]
Product = tuple[str, Shapes, tuple[Shapes, ...], Hashable]
"""The name of an autograd node, shapes of its results and of what it is made of, and how its windows move."""
LIBRARIES = ("_DDPSink", "_PreBackward", "_PostBackward", "RegisterPostBackward", "BackwardHook")
"""Functions that parallel wrappers put around a model, and which compute nothing."""
MOST_NODES = 300_000
NONE: frozenset[int] = frozenset()
_light: set[type] = set()
"""Types of autograd's own nodes that do no matrix work and are named like the node."""


class CallGraph:
    """Where a call stands in autograd's numbering, and the numbers of the nodes that make its outputs."""

    __slots__ = ("begin", "end", "nodes", "outputs")

    def __init__(self, begin: int, end: int, outputs: frozenset[int] = NONE, nodes: tuple[Any, ...] = ()) -> None:
        self.begin, self.end, self.outputs = begin, end, outputs
        self.nodes = nodes
        """The nodes themselves, if there are several: a backward may begin at some of them."""

    @staticmethod
    def of(begin: int, end: int, output: Any) -> CallGraph:
        """The graph of a call, with the outputs at which the default loss would begin."""
        if type(output) is torch.Tensor:
            node = output.grad_fn
            return CallGraph(begin, end, NONE if node is None else frozenset((internals.node_sequence(node),)))
        tensors = own_losses(output) or [t for t in tensors_in(output) if t.is_floating_point()]
        nodes = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
        outputs = frozenset(internals.node_sequence(node) for node in nodes)
        return CallGraph(begin, end, outputs, tuple(nodes) if len(outputs) > 1 else ())

    @property
    def places(self) -> Hashable:
        """Where its outputs are, as `entrances` numbers nodes."""
        return frozenset(self.end - number for number in self.outputs)

    def covers(self, node: Any) -> bool:
        """Whether a node was made in this call."""
        return self.begin <= internals.node_sequence(node) < self.end

    def sizes(self, output: Any) -> Hashable:
        """Rows and widths of the call's products, by kind: rows that only move between equal products do the same work."""
        below = _nodes_below(_nodes_of(tensors_in(output)), self.covers)[0]
        products = [_described(node) for node in below if _works(node)]
        fixed = _fixed_places(products)
        rows: Counter[Hashable] = Counter()
        for name, results, made_of, windows in products:
            widths = [
                shape if (name, place) in fixed else (shape or ())[1:] for place, shape in _placed(results, made_of)
            ]
            rows[name, tuple(widths), windows] += _rows(results)
        return frozenset(rows.items())

    def works_beside(self, run: set[Any]) -> bool:
        """Whether a backward that runs these nodes does other matrix work in this call than one from all its outputs."""
        here = {node for node in run if self.covers(node)}
        ends = [node for node in here if internals.node_sequence(node) in self.outputs]
        by_default, _ = _nodes_below([*ends, *self.nodes], self.covers)
        return any(map(_works, here ^ by_default))


def entrances(tensors: Any, calls: Sequence[CallGraph | None]) -> Hashable:
    """Where the graph behind some tensors enters calls, and the names of its nodes before that, of products with their sizes.

    Equal steps have equal entrances: calls are numbered from the last one, and the nodes of a call from its end.
    """
    entered: set[tuple[int, int]] = set()
    own: set[Any] = set()
    names: set[Any] = set()
    products: list[Hashable] = []
    waiting = _nodes_of(tensors)
    last = calls[-1] if calls else None
    sequence, light = internals.node_sequence, _light
    while waiting and len(own) < MOST_NODES:
        node = waiting.pop()
        number = sequence(node)
        if last is not None and last.begin <= number < last.end:
            entered.add((0, last.end - number))
        elif (last is None or number < last.begin) and (place := _place(number, calls)) is not None:
            entered.add(place)
        elif node not in own:
            own.add(node)
            for below, _ in node.next_functions:
                if below is not None:
                    waiting.append(below)
            kind = type(node)
            if kind in light:
                names.add(kind)
            elif _works(node):
                products.append(_described(node))
            else:
                names.add(kind if kind in light else node.name())
    return frozenset(entered), frozenset(names), frozenset(Counter(products).items()) if products else None


def wanted(inputs: Any, calls: Sequence[CallGraph | None]) -> Hashable:
    """Which gradients a backward makes: those of these tensors."""
    return tuple([_place_of_gradient(one, calls) for one in _given(inputs)])


def _place_of_gradient(one: torch.Tensor | GradientEdge, calls: Sequence[CallGraph | None]) -> Hashable:
    if isinstance(one, nn.Parameter):
        return id(one)
    node = first_node(one)
    place = None if node is None else _place(internals.node_sequence(node), calls)
    return place or (tuple(one.shape) if isinstance(one, torch.Tensor) else node.name())


def _described(node: Any) -> Product:
    """The name of a product, the shapes of its results and of what it is made of, and how its windows move."""
    made_of = [() if below is None else internals.gradient_shapes(below) for below, _ in node.next_functions]
    return node.name(), internals.gradient_shapes(node), tuple(made_of), internals.windows(node)


def _rows(results: Shapes) -> int:
    return next((shape[0] for shape in results if shape), 1)


def _placed(results: Shapes, made_of: Sequence[Shapes]) -> Iterator[tuple[tuple[int, int], tuple[int, ...] | None]]:
    """Every shape of a product with its place: among the results, or among the gradients of something it is made of."""
    for part, shapes in enumerate((results, *made_of)):
        for at, shape in enumerate(shapes):
            yield (part, at), shape


def _fixed_places(products: Iterable[Product]) -> set[tuple[str, tuple[int, int]]]:
    """Where shapes begin with another number than that of the rows, as weights do, if by chance not in every product."""
    return {
        (name, place)
        for name, results, made_of, _ in products
        for place, shape in _placed(results, made_of)
        if shape and shape[0] != _rows(results)
    }


def _place(number: int, calls: Sequence[CallGraph | None]) -> tuple[int, int] | None:
    """The call that made a node, and its place in there; both from the end. None if the loop made it."""
    for back, call in enumerate(reversed(calls)):
        if call is not None and number >= call.begin:
            return (back, call.end - number) if number < call.end else None
    return None


def calls_reached(tensors: Any, calls: Sequence[CallGraph | None]) -> tuple[int, ...] | None:
    """The calls that a backward from these tensors goes through, each as its twin does.

    None if it does other matrix work in a call, or some of the loop's own: only counting the step can tell.
    """
    known = [(at, call) for at, call in enumerate(calls) if call is not None]
    run, whole = _nodes_below(_nodes_of(tensors))
    if not whole or any(_works(node) for node in run if not any(call.covers(node) for _, call in known)):
        return None
    numbers = {internals.node_sequence(node) for node in run}
    reached = []
    for at, call in known:
        if call.outputs & numbers:
            if call.works_beside(run):
                return None
            reached.append(at)
        elif call.outputs and any(map(call.covers, run)):
            return None
    return tuple(reached)


def _given(tensors: Any) -> list[torch.Tensor | GradientEdge]:
    """What a backward begins or ends at: a tensor or an edge of the graph, or several."""
    given = [tensors] if isinstance(tensors, torch.Tensor | GradientEdge) else tensors or ()
    given = given.values() if isinstance(given, Mapping) else given
    return [one for one in given if isinstance(one, torch.Tensor | GradientEdge)]


def _nodes_of(tensors: Any) -> list[Any]:
    if type(tensors) is torch.Tensor:
        return [] if tensors.grad_fn is None else [tensors.grad_fn]
    return [node for one in _given(tensors) if (node := first_node(one)) is not None]


def _nodes_below(ends: Iterable[Any], within: Callable[[Any], bool] = lambda _: True) -> tuple[set[Any], bool]:
    """All nodes that a backward from these ones runs, and whether there are not too many to follow."""
    waiting = [node for node in ends if node is not None and within(node)]
    met: set[Any] = set(waiting)
    while waiting and len(met) < MOST_NODES:
        for below, _ in waiting.pop().next_functions:
            if below is not None and below not in met and within(below):
                met.add(below)
                waiting.append(below)
    return met, not waiting


def _works(node: Any) -> bool:
    if type(node) in _light:
        return False
    name = node.name()
    if isinstance(node, BackwardCFunction):  # a function of the loop's own, whatever it does
        return not name.startswith(LIBRARIES)
    works = _is_product(name)
    if not works and type(node).__name__ == name:
        _light.add(type(node))
    return works


@cache
def _is_product(name: str) -> bool:
    name = name.lower()
    return any(part in name for part in PRODUCTS) and not name.startswith(ELEMENTWISE)
