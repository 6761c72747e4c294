"""Time of backward by module on the host: marks before and after every autograd node.

Module backward hooks break on in-place activations and misplace time; a node knows by its number who made it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch

from . import internals
from .clock import pausing
from .scope import Call, Site, wrapped
from .timing import Timer


class NodeTimes:
    """Marks around the nodes of one graph while its backward runs inside a `with`; then `by_row`.

    The marks go with the block: the node that gathers a parameter's gradient is in every graph that the user holds.
    """

    def __init__(self, losses: Sequence[torch.Tensor], timer: Timer, now: Callable[[], float]) -> None:
        self._log: list[tuple[Site, bool, float]] = []
        self._losses, self._timer, self._now = losses, timer, now
        self._stack = ExitStack()

    def __enter__(self) -> NodeTimes:
        """Put the marks on; that is no time of the user's."""
        with pausing():
            for node in _nodes([loss.grad_fn for loss in self._losses]):
                self._watch(node, self._row(node, self._timer), self._now)
        return self

    def __exit__(self, *_problem: object) -> None:
        """Take the marks off."""
        with pausing():
            self._stack.close()

    @staticmethod
    def _row(node: Any, timer: Timer) -> Site:
        number = internals.node_sequence(node)
        if number >= internals.NO_SEQUENCE:
            return timer.sites.owners.get(id(node.variable), timer.sites.outside)
        return timer.maker(number)

    def _watch(self, node: Any, row: Site, now: Callable[[], float]) -> None:
        mark = self._log.append
        before = node.register_prehook(lambda _gradients: mark((row, True, now())))
        after = node.register_hook(lambda _inputs, _outputs: mark((row, False, now())))
        self._stack.callback(before.remove)
        self._stack.callback(after.remove)

    def by_row(self) -> dict[str, float]:
        """Own seconds by path, from the first mark to the last.

        What passes after a node goes to it: there autograd adds its gradients to those that are waiting already.
        """
        totals: dict[str, float] = {}
        running: list[Site] = []
        owner: Site | None = None
        since = 0.0
        for row, begins, at in self._log:
            if owner is not None:
                totals[owner.path] = totals.get(owner.path, 0.0) + at - since
            if begins:
                running.append(row)
            elif running:
                running.pop()
            owner, since = running[-1] if running else row, at
        return totals


class BackwardTimes:
    """The same for every backward that somebody's loop makes inside `running()`; one within another is part of it."""

    def __init__(self, timer: Timer, now: Callable[[], float]) -> None:
        self._timer, self._now = timer, now
        self._seen: list[NodeTimes] = []
        self._busy = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the calls of `torch.autograd.backward` and `torch.autograd.grad`."""
        backward, grad = partial(self._watch, "tensors"), partial(self._watch, "outputs")
        with wrapped(torch.autograd, "backward", backward), wrapped(torch.autograd, "grad", grad):
            yield

    def _watch(self, first: str, backward: Call) -> Call:
        def watched(*args: Any, **kwargs: Any) -> Any:
            roots = args[0] if args else kwargs.get(first)
            losses = tuple(roots) if isinstance(roots, Sequence) else (roots,)
            if self._busy or not all(isinstance(loss, torch.Tensor) for loss in losses):
                return backward(*args, **kwargs)
            self._busy = True
            try:
                with NodeTimes(losses, self._timer, self._now) as nodes:
                    self._seen.append(nodes)
                    return backward(*args, **kwargs)
            finally:
                self._busy = False

        return watched

    def by_row(self) -> dict[str, float]:
        """Own seconds by path, of all of them."""
        totals: Counter[str] = Counter()
        for nodes in self._seen:
            totals.update(nodes.by_row())
        return dict(totals)


def _nodes(roots: Sequence[Any]) -> Iterator[Any]:
    """Every node of an autograd graph, once."""
    seen: set[Any] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [next_node for next_node, _ in node.next_functions]
