"""Time of backward by module on the host: marks before and after every autograd node.

Module backward hooks break on in-place activations and misplace time; a node knows by its number who made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import internals
from .scope import Site
from .timing import Timer


class NodeTimes:
    """Marks around the nodes of one graph; `by_row` when its backward has run."""

    def __init__(self, loss: torch.Tensor, timer: Timer, now: Callable[[], float]) -> None:
        self._log: list[tuple[Site, bool, float]] = []
        for node in _nodes(loss.grad_fn):
            self._watch(node, self._row(node, timer), now)

    @staticmethod
    def _row(node: Any, timer: Timer) -> Site:
        number = internals.node_sequence(node)
        if number >= internals.NO_SEQUENCE:
            return timer.sites.owners.get(id(node.variable), timer.sites.outside)
        return timer.maker(number)

    def _watch(self, node: Any, row: Site, now: Callable[[], float]) -> None:
        mark = self._log.append
        node.register_prehook(lambda _gradients: mark((row, True, now())))
        node.register_hook(lambda _inputs, _outputs: mark((row, False, now())))

    def by_row(self) -> dict[str, float]:
        """Own seconds by path."""
        totals: dict[str, float] = {}
        running: list[tuple[Site, float]] = []
        for row, begins, at in self._log:
            if begins:
                running.append((row, at))
            elif running:
                began, since = running.pop()
                totals[began.path] = totals.get(began.path, 0.0) + at - since
        return totals


def _nodes(root: Any) -> Iterator[Any]:
    """Every node of an autograd graph, once."""
    seen: set[Any] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [next_node for next_node, _ in node.next_functions]
