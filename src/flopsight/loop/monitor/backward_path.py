"""Through which calls of the model a backward goes, read from the graph that it will run.

A call is counted on a twin whose backward begins at the default loss. The loop's own backward may leave a call out
(its output was detached), use some of its outputs only, or run products that the loop itself made. The graph tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from ...capture.hooks import internals
from ...capture.model.model_run import own_loss
from ...capture.model.tensors import tensors_in

PRODUCTS = ("mm", "mv", "dot", "linear", "conv", "attention", "cdist", "dist", "rnn", "lstm", "gru", "compiled")
"""Parts of the names of autograd's nodes that do matrix work."""
LIBRARIES = ("_DDPSink", "_PreBackward", "_PostBackward", "RegisterPostBackward", "BackwardHook")
"""Functions that parallel wrappers put around a model, and which compute nothing."""
MOST_NODES = 300_000


@dataclass
class CallGraph:
    """Where a call stands in autograd's numbering, and the numbers of the nodes that make its outputs."""

    begin: int
    end: int = 0
    outputs: frozenset[int] = frozenset()
    nodes: tuple[Any, ...] = ()
    """The nodes themselves, if there are several: a backward may begin at some of them."""

    def close(self, output: Any) -> None:
        """Note the outputs at which the default loss would begin."""
        self.end = internals.sequence_number()
        if type(output) is torch.Tensor:
            if output.grad_fn is not None:
                self.outputs = frozenset((internals.node_sequence(output.grad_fn),))
            return
        loss = own_loss(output)
        tensors = [loss] if loss is not None else [t for t in tensors_in(output) if t.is_floating_point()]
        nodes = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
        self.outputs = frozenset(internals.node_sequence(node) for node in nodes)
        self.nodes = tuple(nodes) if len(self.outputs) > 1 else ()

    def works_beside(self, seen: set[int]) -> bool:
        """Whether outputs that a backward does not begin at have matrix work of their own in this call."""
        waiting = [node for node in self.nodes if internals.node_sequence(node) not in seen]
        met = set(waiting)
        while waiting:
            node = waiting.pop()
            number = internals.node_sequence(node)
            if number in seen or not self.begin <= number < self.end:
                continue
            if _works(node):
                return True
            for below, _ in node.next_functions:
                if below is not None and below not in met:
                    met.add(below)
                    waiting.append(below)
        return False


def calls_reached(tensors: Any, calls: Sequence[CallGraph | None]) -> tuple[int, ...] | None:
    """The calls that a backward from these tensors goes through, each as its twin does.

    None if it goes through a part of a call, or does matrix work of the loop's own: only counting the step can tell.
    """
    known = [(at, call) for at, call in enumerate(calls) if call is not None]
    seen, outside = _numbers(tensors, [call for _, call in known])
    reached = []
    for at, call in known:
        through = call.outputs & seen
        if through and through != call.outputs and call.works_beside(seen):
            return None
        if through:
            reached.append(at)
        elif call.outputs and any(call.begin <= number < call.end for number in seen):
            return None
    return None if outside else tuple(reached)


def _numbers(tensors: Any, calls: Sequence[CallGraph]) -> tuple[set[int], bool]:
    """Numbers of all nodes that a backward runs, and whether nodes outside the calls do matrix work."""
    given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or ())
    waiting = [tensor.grad_fn for tensor in given if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None]
    met: set[Any] = set(waiting)
    numbers: set[int] = set()
    while waiting and len(met) < MOST_NODES:
        node: Any = waiting.pop()
        number = internals.node_sequence(node)
        numbers.add(number)
        if not any(call.begin <= number < call.end for call in calls) and _works(node):
            return numbers, True
        for below, _ in node.next_functions:
            if below is not None and below not in met:
                met.add(below)
                waiting.append(below)
    return numbers, len(met) >= MOST_NODES


def _works(node: Any) -> bool:
    name = node.name()
    if isinstance(node, BackwardCFunction):  # a function of the loop's own, whatever it does
        return not name.startswith(LIBRARIES)
    return any(part in name.lower() for part in PRODUCTS)
