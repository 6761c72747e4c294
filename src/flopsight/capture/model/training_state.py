"""What a training step of ours changes: parameters, the optimizer's state, gradients, also of whatever else the loss reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import GradientEdge

from ..hooks.optimizer_steps import optimizer_steps, with_inner
from ..hooks.patches import Call, wrapped
from .restore import AttributeContents, Values, put_all_back

OPTIMIZER_DEPTH = 3
"""Nesting depth of what an optimizer holds: attributes, state, state of a parameter, list of tensors."""


@contextmanager
def kept_training_state(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Iterator[int]:
    """Put back gradients and, if an optimizer steps, parameters and everything that it keeps."""
    parameters = list(dict.fromkeys([*model.parameters(), *(_stepped_by(optimizer) if optimizer is not None else ())]))
    before = None if optimizer is None else _BeforeStep(optimizer, parameters)
    with ExitStack() as afterwards:
        if before is not None:
            afterwards.callback(before.put_back)
        afterwards.enter_context(kept_gradients(parameters))
        yield 0 if before is None else before.values.nbytes


class _BeforeStep:
    """What an optimizer is about to change."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        others: Iterable[torch.Tensor] = (),
        noted: Set[torch.Tensor] = frozenset(),
    ) -> None:
        self._held = AttributeContents(map(vars, with_inner(optimizer)), depth=OPTIMIZER_DEPTH)
        self.tensors = {*_stepped_by(optimizer), *others, *self._held.tensors()} - noted
        self.values = Values(self.tensors)

    def put_back(self) -> None:
        """Let the optimizer hold what it held, and its tensors their values."""
        put_all_back([self._held.put_back, self.values.put_back])


def _stepped_by(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


@contextmanager
def kept_from_own_steps() -> Iterator[None]:
    """Put back what optimizers change that a forward steps itself."""
    noted: dict[torch.optim.Optimizer, _BeforeStep] = {}
    tensors: set[torch.Tensor] = set()

    def note(optimizer: torch.optim.Optimizer) -> None:
        if optimizer not in noted:  # a forward may make a new one every time, for the same parameters
            noted[optimizer] = _BeforeStep(optimizer, noted=tensors)
            tensors.update(noted[optimizer].tensors)

    try:
        with optimizer_steps(note, lambda: None):
            yield
    finally:
        put_all_back(before.put_back for before in noted.values())


@contextmanager
def kept_gradients(parameters: Iterable[torch.Tensor]) -> Iterator[None]:
    """Take the gradients of parameters away for the block and put them back, with those of every other leaf of its first graph.

    Only the first backward is looked at: timed runs follow, and a walk through their graphs would be part of their time.
    """
    noted: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}

    def note(leaf: torch.Tensor) -> None:
        if id(leaf) not in noted:
            noted[id(leaf)] = leaf, leaf.grad
            leaf.grad = None

    def noting(backward: Call) -> Call:
        looked = False

        def with_leaves_noted(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal looked
            tensors = read_twice(tensors)
            if not looked:
                looked = True
                for leaf in leaves_below([tensors] if isinstance(tensors, torch.Tensor | GradientEdge) else tensors):
                    note(leaf)
            return backward(tensors, *args, **kwargs)

        return with_leaves_noted

    for parameter in parameters:
        note(parameter)
    try:
        with wrapped(torch.autograd, "backward", noting):
            yield
    finally:
        put_all_back(partial(setattr, leaf, "grad", gradient) for leaf, gradient in noted.values())


def read_twice(given: Any) -> Any:
    """An argument of the user's call that may be read again: an iterator is empty after the first time."""
    return tuple(given) if isinstance(given, Iterator) else given


def first_node(root: Any) -> Any:
    """Where a backward from a tensor, or from an edge of its graph, begins; None if it cannot."""
    return root.node if isinstance(root, GradientEdge) else getattr(root, "grad_fn", None)


def graph_nodes(roots: Iterable[torch.Tensor | GradientEdge]) -> Iterator[Any]:
    """Every autograd node, once, that a backward from these tensors or graph edges runs."""
    waiting = [node for node in map(first_node, roots) if node is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)


def leaves_below(tensors: Iterable[torch.Tensor | GradientEdge]) -> Iterator[torch.Tensor]:
    """The leaves that get a gradient in a backward from these tensors or graph edges."""
    return (node.variable for node in graph_nodes(tensors) if hasattr(node, "variable"))
