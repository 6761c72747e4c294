"""Leave no trace: what a run may change is noted before it and put back after it, also when the run raises."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from . import internals


@contextmanager
def kept_rng() -> Iterator[None]:
    """Put back the random states of torch, its devices, numpy and Python."""
    numpy = sys.modules.get("numpy")
    state = torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    numpy_state = numpy.random.get_state() if numpy else None
    python_state = random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(state)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        if numpy:
            numpy.random.set_state(numpy_state)
        random.setstate(python_state)


@contextmanager
def kept_buffers(model: nn.Module) -> Iterator[None]:
    """Put back buffers (BatchNorm statistics) and train/eval flags.

    Values go back without a new version, so that a graph built before still runs its backward.
    """
    flags = [(module, module.training) for module in model.modules()]
    bound = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    values = {id(buffer): (buffer, buffer.detach().clone()) for _, _, buffer in bound if not buffer.is_meta}
    try:
        yield
    finally:
        for module, flag in flags:
            module.training = flag
        for module, name, buffer in bound:
            module._buffers[name] = buffer
        with torch.no_grad():
            for buffer, value in values.values():
                with internals.same_version(buffer):
                    buffer.copy_(value)


@contextmanager
def kept_training_state(model: nn.Module, optimizer: torch.optim.Optimizer | None) -> Iterator[None]:
    """Put back gradients and, where an optimizer steps, parameters and its state."""
    tensors = list(dict.fromkeys(model.parameters()))
    if optimizer is not None:
        tensors = list(dict.fromkeys([*tensors, *(p for group in optimizer.param_groups for p in group["params"])]))
    gradients = [(parameter, parameter.grad) for parameter in tensors]
    values = [(p, p.detach().clone()) for p in tensors if not p.is_meta] if optimizer is not None else []
    state = {key: _copied(value) for key, value in optimizer.state.items()} if optimizer is not None else {}
    for parameter in tensors:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        with torch.no_grad():
            for parameter, value in values:
                with internals.same_version(parameter):
                    parameter.copy_(value)
            if optimizer is not None:
                optimizer.state.clear()
                for key, item in state.items():
                    optimizer.state[key] = _put_back(item)


def _copied(value: Any) -> Any:
    """A value with its tensors beside a copy of what they hold."""
    if isinstance(value, torch.Tensor):
        return (value, value.detach().clone())
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return (value, None)


def _put_back(kept: Any) -> Any:
    if isinstance(kept, dict):
        return {key: _put_back(item) for key, item in kept.items()}
    if isinstance(kept, list):
        return [_put_back(item) for item in kept]
    value, copy = kept
    if copy is not None:
        with internals.same_version(value):
            value.copy_(copy)
    return value
