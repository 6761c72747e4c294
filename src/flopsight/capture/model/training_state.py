"""What a training step of ours changes: parameters, the optimizer's state, gradients, also of whatever else the loss reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from ..hooks.optimizer_steps import with_inner
from ..hooks.patches import Call, wrapped
from .restore import AttributeContents, Values, put_all_back

OPTIMIZER_DEPTH = 3
"""An optimizer's attributes hold its state, that the state of a parameter, and that perhaps a list of tensors."""


@contextmanager
def kept_training_state(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Iterator[int]:
    """Put back gradients and, where an optimizer steps, parameters and everything that it keeps."""
    steps = [] if optimizer is None else [p for group in optimizer.param_groups for p in group["params"]]
    parameters = list(dict.fromkeys([*model.parameters(), *steps]))
    held = AttributeContents(map(vars, [] if optimizer is None else with_inner(optimizer)), depth=OPTIMIZER_DEPTH)
    values = Values([] if optimizer is None else [*parameters, *held.tensors()])
    with ExitStack() as afterwards:
        afterwards.callback(values.put_back)
        afterwards.callback(held.put_back)
        afterwards.enter_context(kept_gradients(parameters))
        yield values.nbytes


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
            if not looked:
                looked = True
                for leaf in leaves_below([tensors] if isinstance(tensors, torch.Tensor) else tensors):
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


def leaves_below(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The leaves that a backward from these tensors gives a gradient."""
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if hasattr(node, "variable"):
            yield node.variable
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)
