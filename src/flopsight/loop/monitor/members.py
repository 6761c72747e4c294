"""Which models and optimizers belong to a loop."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import nn

from ...distributed.topology import is_engine


class Members:
    """The models that were given, or found while the loop runs, and the optimizers that update them."""

    def __init__(self, models: Sequence[nn.Module], optimizer: torch.optim.Optimizer | None = None) -> None:
        self.trained: WeakSet[nn.Module] = WeakSet()
        """Models that were called with gradients, or given and updated by the optimizer."""
        self._given = models
        self._optimizers: WeakKeyDictionary[torch.optim.Optimizer, bool] = WeakKeyDictionary()
        held = None if optimizer is None else _held_by(optimizer)
        for model in models:
            if _trainable(model) and (held is None or any(id(one) in held for one in model.parameters())):
                self.trained.add(model)

    def trains(self, module: nn.Module) -> bool:
        """Whether the loop trains a module; before the first is known, any may be that can be trained."""
        return module in self.trained or (not self.trained and _trainable(module))

    def updated_by(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer updates parameters that are watched."""
        if not self._given:
            return True
        known = self._optimizers.get(optimizer)
        if known is None:
            held = _held_by(optimizer)
            watched = {id(parameter) for model in self._given for parameter in model.parameters()}
            flat = any(map(is_engine, self._given))  # whose optimizers hold parts of one flat tensor
            known = self._optimizers[optimizer] = bool(held & watched) or not held or flat
        return known


def _held_by(optimizer: torch.optim.Optimizer) -> set[int]:
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def _trainable(model: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in model.parameters())
