"""Small models with their arithmetic, for whoever needs a model and does not care which."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import nn

ROWS, WIDE, HIDDEN, OUT = 4, 8, 16, 2
UP, DOWN = ROWS * WIDE * HIDDEN, ROWS * HIDDEN * OUT
MACS = UP + DOWN
PARAMS = (WIDE * HIDDEN + HIDDEN) + 2 * HIDDEN + (HIDDEN * OUT + OUT)
"""Two linears with biases, and the weight and bias of the norm."""
LINEAR_FLOPS = 2 * MACS + ROWS * HIDDEN + ROWS * OUT
"""Two for every MAC, and the biases."""


class Net(nn.Module):
    """Everything that a run could change: running statistics, and all three random generators."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDE, HIDDEN)
        self.norm = nn.BatchNorm1d(HIDDEN)
        self.drop = nn.Dropout(0.5)
        self.down = nn.Linear(HIDDEN, OUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        random.random()
        np.random.rand()
        return self.down(self.drop(self.norm(self.up(x))))


def rows(**options) -> torch.Tensor:
    return torch.randn(ROWS, WIDE, **options)


class Trouble(Exception):
    """What a user's model raises."""


class Raises(Net):
    """A model that raises after its first layer; without a number, every time."""

    def __init__(self, problem: BaseException | None = None, on_call: int = 0) -> None:
        super().__init__()
        self.problem = problem or Trouble("in forward")
        self.on_call = on_call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.norm(self.up(x))
        raise self.problem


class RaisesInBackward(Net):
    """A model whose backward raises."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Broken.apply(super().forward(x))


class Broken(torch.autograd.Function):
    """Nothing forward, trouble backward."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise Trouble("in backward")


class BrokenStep(torch.optim.SGD):
    """An optimizer that has changed its parameters when it raises."""

    def step(self, closure=None):
        super().step(closure)
        raise Trouble("in the step")


def graph_count(compiled_graphs: list):
    """A backend for torch.compile that notes every graph it gets."""

    def backend(graph, _inputs):
        compiled_graphs.append(graph)
        return graph.forward

    return backend
