"""A model given by its name, as on the command line: built, with inputs that fit it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..capture.model.model_run import ModelRun, make_run
from ..errors import InputError
from ..targets.code import imports_put_back
from ..targets.complaints import unknown_optimizer
from ..targets.inputs import TensorSpec
from ..targets.loading import load_target


@contextmanager
def run_of(
    model: nn.Module | str,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    input_shape: Sequence[int] | None = None,
    *,
    train: bool = False,
    loss: Callable[[Any], torch.Tensor] | None = None,
    optimizer: torch.optim.Optimizer | str | None = None,
    meta: bool = False,
) -> Iterator[ModelRun]:
    """The run of a model that was handed in, or of one that is built by its name; an optimizer may be a name too.

    A model that we build runs in inference without gradients, as on the command line.
    """
    if not isinstance(model, str):
        if isinstance(optimizer, str):
            optimizer = named_optimizer(optimizer, model)
        yield make_run(model, args, kwargs, input_shape, train=train, loss=loss, optimizer=optimizer)
        return
    if optimizer is not None and not isinstance(optimizer, str):
        raise InputError(
            f'The optimizer of a model that is built by its name is a name too, like "adamw", not {type(optimizer).__name__}.'
        )
    given = tuple(args) if isinstance(args, tuple | list) else (args,)
    if input_shape is not None and (given or kwargs):
        raise InputError(f"Give {model} either input_shape, or args and kwargs.")
    specs = [TensorSpec(tuple(input_shape))] if input_shape is not None else []
    with imports_put_back():
        found = load_target(model, specs, meta=meta, train=train, optimizer=optimizer is not None)
        found.model.train(train)
        if given or kwargs:
            found = replace(found, args=given, kwargs=kwargs or {})
        made = named_optimizer(optimizer, found.model) if optimizer is not None else None
        with found.calling(), nullcontext() if train else torch.no_grad():
            yield make_run(found.model, found.args, found.kwargs, train=train, loss=loss, optimizer=made)


def named_optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of torch.optim with this name, in any case of letters, for the model's parameters."""
    kinds = {
        kind.__name__.lower(): kind
        for kind in vars(torch.optim).values()
        if isinstance(kind, type) and kind is not torch.optim.Optimizer
    }
    kind: Any = kinds.get(name.lower())
    if kind is None:
        raise unknown_optimizer(name, kinds)
    try:
        made: torch.optim.Optimizer = kind(model.parameters(), lr=1e-3)
    except (TypeError, ValueError) as problem:
        raise InputError(f"torch.optim.{kind.__name__} cannot be made for this model: {problem}") from None
    return made
