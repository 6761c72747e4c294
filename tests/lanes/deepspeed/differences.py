"""Small models that DeepSpeed's profiler counts otherwise than we do, each with both answers; docs/deepspeed.md lists them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Doing(nn.Module):
    """A function as a model."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@dataclass(frozen=True)
class Case:
    row: str
    """The first cell of the row in docs/deepspeed.md."""
    model: nn.Module
    args: tuple[Any, ...]
    ours: int
    """MACs, worked by hand; for pointwise work FLOPs."""
    theirs: int
    pointwise: bool = False


def normal(*shape, **options):
    return torch.randn(*shape, **options)


CASES = [
    Case(
        "`torch.einsum`",
        Doing(lambda a, b: torch.einsum("ij,jk->ik", a, b)),
        (normal(4, 8), normal(8, 2)),
        4 * 8 * 2,
        0,
    ),
    # per place: four gates from 8 inputs and from 4 hidden values
    Case("`nn.LSTM`", nn.LSTM(8, 4, batch_first=True), (normal(2, 5, 8),), 2 * 5 * 4 * (8 + 4) * 4, 0),
    # 10 tokens through three projections and one more; scores and values in 2 sequences of 5 tokens
    Case(
        "`nn.MultiheadAttention` in eval",
        nn.MultiheadAttention(8, 2, batch_first=True),
        (normal(2, 5, 8),) * 3,
        10 * 4 * 8 * 8 + 2 * 2 * 5 * 5 * 8,
        0,
    ),
    Case(
        "`x * w + x` (FLOPs)", Doing(lambda x, w: x * w + x), (normal(4, 8), normal(4, 8)), 2 * 4 * 8, 0, pointwise=True
    ),
    Case("`tanh` (FLOPs)", nn.Tanh(), (normal(4, 8),), 4 * 8, 0, pointwise=True),
    Case("the product of two vectors", Doing(lambda a, b: torch.matmul(a, b)), (normal(8), normal(8)), 8, 8 * 8),
    Case(
        "a matrix times a vector", Doing(lambda a, b: torch.matmul(a, b)), (normal(4, 8), normal(8)), 4 * 8, 4 * 8 * 8
    ),
    Case(
        "`matmul` that broadcasts its first operand",
        Doing(lambda a, b: torch.matmul(a, b)),
        (normal(4, 8), normal(3, 8, 10)),
        3 * 4 * 8 * 10,
        4 * 8 * 10,
    ),
    Case(
        "`matmul` of complex numbers, in real MACs",
        Doing(lambda a, b: torch.matmul(a, b)),
        (normal(4, 8, dtype=torch.complex64), normal(8, 5, dtype=torch.complex64)),
        4 * (4 * 8 * 5),
        4 * 8 * 5,
    ),
    Case(
        '`Conv2d(padding="same")`, even kernel',
        nn.Conv2d(3, 4, 4, padding="same", bias=False),
        (normal(1, 3, 40, 40),),
        40 * 40 * 4 * 4 * 3 * 4,
        39 * 39 * 4 * 4 * 3 * 4,
    ),
]

RAISES = [
    ("`Conv2d` without a batch dimension", nn.Conv2d(3, 4, 3, bias=False), (normal(3, 8, 8),), 6 * 6 * 9 * 3 * 4),
    (
        "attention called by keyword",
        Doing(lambda q: F.scaled_dot_product_attention(query=q, key=q, value=q)),
        (normal(1, 2, 4, 8),),
        2 * 2 * 4 * 4 * 8,
    ),
]
"""(row, model, args, our MACs) of models that run, but not under DeepSpeed's profiler."""
