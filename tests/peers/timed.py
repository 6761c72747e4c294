"""Models that every tool is timed on: one that computes, one that waits for Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from flopsight import zoo


@dataclass(frozen=True)
class Timed:
    """A model and its input."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]

    def call(self):
        torch.manual_seed(0)
        return self.build().eval(), (torch.randn(self.shape),), {}


TIMED = {
    "ResNet-50, one 224 x 224 image": Timed(zoo.factory("resnet50"), (1, 3, 224, 224)),
    "ResNet-50, one 32 x 32 image": Timed(zoo.factory("resnet50"), (1, 3, 32, 32)),
}
