"""Small cases whose figures can be worked out by hand, counted on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..engine.measure import count, recording
from .checkup import Checked

GROUP = "closed forms"
Figures = tuple[int, ...]
Case = Callable[[torch.device], tuple[Figures, Figures]]


class Attention(nn.Module):
    """Nothing but scaled dot products."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend to itself."""
        return nn.functional.scaled_dot_product_attention(x, x, x)


class Checkpointed(nn.Module):
    """Two layers, run again in backward."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, x: torch.Tensor) -> Any:
        """Keep the input alone."""
        return checkpoint(self.inner, x, use_reentrant=True)


def matmul(device: torch.device) -> tuple[Figures, Figures]:
    """Multiply 4x8 by 8x16."""
    with recording() as seen:
        torch.ones(4, 8, device=device) @ torch.ones(8, 16, device=device)
    return (seen.profile.macs, seen.profile.flops), (4 * 8 * 16, 2 * 4 * 8 * 16)


def batched(device: torch.device) -> tuple[Figures, Figures]:
    """Multiply five pairs at once."""
    with recording() as seen:
        torch.einsum("bij,bjk->bik", torch.ones(5, 4, 8, device=device), torch.ones(5, 8, 3, device=device))
    return (seen.profile.macs,), (5 * 4 * 8 * 3,)


def linear(device: torch.device) -> tuple[Figures, Figures]:
    """Multiply by a layer's weight and add its bias."""
    made = count(nn.Linear(8, 16).to(device), (torch.ones(4, 8, device=device),))
    return (made.macs, made.flops, made.params), (4 * 8 * 16, 2 * 4 * 8 * 16 + 4 * 16, 8 * 16 + 16)


def convolution(device: torch.device) -> tuple[Figures, Figures]:
    """Slide a 3x3 window over 2x3x16x16."""
    made = count(nn.Conv2d(3, 8, 3, padding=1, bias=False).to(device), (torch.ones(2, 3, 16, 16, device=device),))
    return (made.macs,), (2 * 8 * 16 * 16 * 3 * 3 * 3,)


def grouped_convolution(device: torch.device) -> tuple[Figures, Figures]:
    """Slide a window over every channel by itself."""
    model = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False).to(device)
    made = count(model, (torch.ones(1, 8, 6, 6, device=device),), train=True)
    return (made.macs, made.backward.macs), (8 * 36 * 9, 8 * 36 * 9)


def attention(device: torch.device) -> tuple[Figures, Figures]:
    """Scores and values of 2x4 heads, 16 tokens, 8 features."""
    made = count(Attention(), (torch.ones(2, 4, 16, 8, device=device),))
    return (made.macs,), (2 * 4 * 16 * 16 * 8 * 2,)


def recurrent(device: torch.device) -> tuple[Figures, Figures]:
    """Four gates of 16 units from 8 inputs, 5 steps of 3 samples."""
    made = count(nn.LSTM(8, 16).to(device), (torch.ones(5, 3, 8, device=device),))
    return (made.macs,), (4 * 16 * (8 + 16) * 5 * 3,)


def normalisation(device: torch.device) -> tuple[Figures, Figures]:
    """Five FLOPs an element, no multiply-accumulates."""
    made = count(nn.LayerNorm(8).to(device), (torch.ones(4, 8, device=device),))
    return (made.macs, made.flops), (0, 5 * 4 * 8)


def backward(device: torch.device) -> tuple[Figures, Figures]:
    """Two layers: a gradient for each weight, and one for what lies between."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).to(device)
    made = count(model, (torch.ones(4, 8, device=device),), train=True)
    return (made["0"].backward.macs, made["1"].backward.macs), (256, 2 * 256)


def recomputed(device: torch.device) -> tuple[Figures, Figures]:
    """Run both layers of a checkpoint again."""
    x = torch.ones(4, 8, device=device, requires_grad=True)
    made = count(Checkpointed().to(device), (x,), train=True)
    return (made.recompute.macs, made.backward.macs), (2 * 256, 4 * 256)


def optimizer(device: torch.device) -> tuple[Figures, Figures]:
    """One FLOP for each of 72 parameters."""
    model = nn.Linear(8, 8).to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    made = count(model, (torch.ones(4, 8, device=device),), train=True, optimizer=sgd)
    return (made.optimizer.flops,), (72,)


def saved(device: torch.device) -> tuple[Figures, Figures]:
    """What the first layer hands to the second, 4x8 numbers of 4 bytes."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).to(device)
    made = count(model, (torch.ones(4, 8, device=device),), train=True)
    return (made.activation_bytes,), (4 * 8 * 4,)


def meta(device: torch.device) -> tuple[Figures, Figures]:
    """A convolution and its backward without running a kernel."""
    model = nn.Conv2d(3, 8, 3, padding=1, bias=False).to(device)
    made = count(model, (torch.ones(2, 3, 16, 16, device=device),), train=True, on="meta")
    each = 2 * 8 * 16 * 16 * 3 * 3 * 3
    return (made.macs, made.backward.macs), (each, each)


CASES: dict[str, tuple[Case, str, str]] = {
    "matmul": (matmul, "MACs, FLOPs", "every count"),
    "batched matmul": (batched, "MACs", "every count"),
    "linear layer": (linear, "MACs, FLOPs, parameters", "every count"),
    "convolution": (convolution, "MACs", "convolutions"),
    "grouped convolution": (grouped_convolution, "MACs, MACs backward", "convolutions"),
    "attention": (attention, "MACs", "attention on this device"),
    "LSTM": (recurrent, "MACs", "recurrent layers"),
    "normalisation": (normalisation, "MACs, FLOPs", "FLOPs of normalisations"),
    "backward": (backward, "MACs of the first layer, of the second", "backward, by module"),
    "recompute": (recomputed, "MACs again, MACs backward", "recompute under checkpointing"),
    "optimizer": (optimizer, "FLOPs", "the optimizer's FLOPs"),
    "saved for backward": (saved, "bytes", "activation bytes"),
    "meta": (meta, "MACs, MACs backward", "counts on meta, and counts in a training loop"),
}
"""Each case, what its figures are, and which figures of a profile it stands for."""


def closed_forms(device: torch.device) -> Iterator[Checked]:
    """Count every case and compare it with the arithmetic."""
    for name, (case, units, touches) in CASES.items():
        try:
            got, wanted = case(device)
        except Exception as problem:
            yield Checked(GROUP, name, False, f"{type(problem).__name__}: {problem}", touches)
            continue
        yield Checked(GROUP, name, got == wanted, _told(got, wanted, units.split(", ")), touches)


def _told(got: Figures, wanted: Figures, units: list[str]) -> str:
    counted = ", ".join(f"{value:,} {unit}" for value, unit in zip(got, units, strict=True))
    return counted if got == wanted else f"{counted} instead of {', '.join(f'{value:,}' for value in wanted)}"
