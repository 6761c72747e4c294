"""Small cases whose figures can be worked out by hand, counted on this machine: one for each kind of figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..engine.measure import count
from ..results.profile import Profile
from .checkup import Checked, tried

GROUP = "closed forms"


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
        """Keep the input alone, which a reentrant checkpoint asks gradients of."""
        return checkpoint(self.inner, x.requires_grad_(), use_reentrant=True)


class Case(NamedTuple):
    """A model with the shape of its input, what is read of its profile, in which units, and what that has to be."""

    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    read: Callable[[Profile], tuple[int, ...]]
    units: str
    wanted: tuple[int, ...]
    touches: str
    """The figures of a profile that it stands for."""
    train: bool = False
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None
    on: str = "real"

    def counted(self, device: torch.device) -> tuple[bool, str]:
        """Whether the figures that are counted here are those of the arithmetic, and both if they are not."""
        model = self.model().to(device)
        optimizer = self.optimizer(model.parameters()) if self.optimizer else None
        x = torch.ones(self.shape, device=device)
        got = self.read(count(model, (x,), train=self.train, optimizer=optimizer, on=self.on))
        found = ", ".join(f"{value:,} {unit}" for value, unit in zip(got, self.units.split(", "), strict=True))
        instead = "" if got == self.wanted else f" instead of {', '.join(f'{value:,}' for value in self.wanted)}"
        return got == self.wanted, found + instead


CASES = {
    "linear layer": Case(
        partial(nn.Linear, 8, 16), (4, 8), lambda p: (p.macs, p.flops, p.params), "MACs, FLOPs, parameters",
        (4 * 8 * 16, 2 * 4 * 8 * 16 + 4 * 16, 8 * 16 + 16), "every count",
    ),
    "convolution": Case(  # every channel by itself
        partial(nn.Conv2d, 8, 8, 3, padding=1, groups=8, bias=False), (1, 8, 6, 6), lambda p: (p.macs, p.backward.macs),
        "MACs, MACs backward", (8 * 36 * 9, 8 * 36 * 9), "convolutions", True,
    ),
    "attention": Case(Attention, (2, 4, 16, 8), lambda p: (p.macs,), "MACs", (2 * 4 * 16 * 16 * 8 * 2,), "attention on this device"),
    "LSTM": Case(partial(nn.LSTM, 8, 16), (5, 3, 8), lambda p: (p.macs,), "MACs", (4 * 16 * (8 + 16) * 5 * 3,), "recurrent layers"),
    "normalisation": Case(
        partial(nn.LayerNorm, 8), (4, 8), lambda p: (p.macs, p.flops), "MACs, FLOPs", (0, 5 * 4 * 8), "FLOPs of normalisations",
    ),
    "backward": Case(  # a gradient for each weight, one for what lies between, and the 4x8 numbers of 4 bytes that are kept
        lambda: nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), (4, 8), lambda p: (p["0"].backward.macs, p["1"].backward.macs, p.activation_bytes),
        "MACs of the first layer, of the second, bytes kept", (256, 2 * 256, 4 * 8 * 4),
        "backward, by module, and activation bytes", True,
    ),
    "recompute": Case(
        Checkpointed, (4, 8), lambda p: (p.recompute.macs, p.backward.macs), "MACs again, MACs backward", (2 * 256, 4 * 256),
        "recompute under checkpointing", True,
    ),
    "optimizer": Case(  # one FLOP for each of 72 parameters
        partial(nn.Linear, 8, 8), (4, 8), lambda p: (p.optimizer.flops,), "FLOPs", (72,), "the optimizer's FLOPs", True,
        partial(torch.optim.SGD, lr=0.1),
    ),
    "meta": Case(
        partial(nn.Conv2d, 3, 8, 3, padding=1, bias=False), (2, 3, 16, 16), lambda p: (p.macs, p.backward.macs),
        "MACs, MACs backward", (2 * 8 * 16 * 16 * 27, 2 * 8 * 16 * 16 * 27), "counts on meta, and counts in a training loop",
        True, on="meta",
    ),
}  # fmt: skip


def closed_forms(device: torch.device) -> Iterator[Checked]:
    """Count every case and compare it with the arithmetic."""
    for name, case in CASES.items():
        yield tried(GROUP, name, case.touches, partial(case.counted, device))
