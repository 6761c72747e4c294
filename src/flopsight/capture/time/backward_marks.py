"""Time of backward by module on the host: marks before and after every autograd node.

Module backward hooks break on in-place activations and misplace time. A node's number says which module made it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import GradientEdge

from ..hooks import internals
from ..hooks.patches import Call, wrapped
from ..model.sites import Site
from ..model.training_state import graph_nodes
from .clock import pausing
from .module_marks import Timer

Entry = tuple[Site | None, bool, float]
"""The row of a node or of a module that runs again, whether it begins or ends, and when; None ends a backward."""


class BackwardTimes:
    """Marks around the nodes of every backward that this thread makes inside `running()`; then `by_row`.

    They are removed after each backward: the node that gathers a parameter's gradient is part of every graph that the
    user holds.
    """

    def __init__(self, timer: Timer, now: Callable[[], float]) -> None:
        """The timer has to run with `sequences`: it knows which module made a node, and reports what a checkpoint runs again."""
        self.log: list[Entry] = []
        self._timer, self._now = timer, now
        self._thread = self._depth = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the calls of `torch.autograd.backward` and `torch.autograd.grad`."""
        self._thread = threading.get_ident()
        backward, grad = partial(self._watch, "tensors"), partial(self._watch, "outputs")
        with wrapped(torch.autograd, "backward", backward), wrapped(torch.autograd, "grad", grad):
            yield

    def _watch(self, first: str, backward: Call) -> Call:
        def watched(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return backward(*args, **kwargs)
            roots: Any = args[0] if args else kwargs.get(first, ())
            if not isinstance(roots, torch.Tensor | Sequence):
                roots = tuple(roots)  # an iterator can be read only once
                args, kwargs = ((roots, *args[1:]), kwargs) if args else (args, kwargs | {first: roots})
            with self._marked([roots] if isinstance(roots, torch.Tensor | GradientEdge) else roots):
                return backward(*args, **kwargs)

        return watched

    @contextmanager
    def _marked(self, roots: Sequence[Any]) -> Iterator[None]:
        """Mark the nodes of a graph; a graph that a checkpoint runs within another backward shares its log."""
        with ExitStack() as stack:
            with pausing():  # adding and removing marks is not the user's time
                for node in graph_nodes(roots):
                    self._mark(node, self._row(node), stack)
            self._depth += 1
            self._timer.again = self.log.append
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    self._timer.again = None
                    self.log.append((None, False, self._now()))
                with pausing():
                    stack.close()

    def _row(self, node: Any) -> Site:
        number = internals.node_sequence(node)
        if number >= internals.NO_SEQUENCE:
            return self._timer.sites.owners.get(id(node.variable), self._timer.sites.outside)
        return self._timer.maker(number)

    def _mark(self, node: Any, row: Site, stack: ExitStack) -> None:
        mark, now, make, outside = self.log.append, self._now, self._timer.makers.append, self._timer.sites.outside
        number, graph_wanted = internals.sequence_number, torch.is_grad_enabled

        def before(_gradients: Any) -> None:
            if graph_wanted():  # a backward that can be differentiated makes nodes of its own
                make((number(), row))
            mark((row, True, now()))

        def after(_inputs: Any, _outputs: Any) -> None:
            mark((row, False, now()))
            if graph_wanted():
                make((number(), outside))

        stack.callback(node.register_prehook(before).remove)
        stack.callback(node.register_hook(after).remove)

    def by_row(self) -> dict[str, float]:
        """Own seconds by path, from the first mark of a backward to its last.

        What passes after a node goes to it: there autograd adds its gradients to those that are waiting already.
        """
        totals: dict[str, float] = {}
        running: list[Site] = []
        owner: Site | None = None
        since = 0.0
        for row, begins, at in self.log:
            if owner is not None:
                totals[owner.path] = totals.get(owner.path, 0.0) + at - since
            if row is None:
                running.clear()
            elif begins:
                running.append(row)
            elif running:
                running.pop()
            owner, since = running[-1] if running else row, at
        return totals
