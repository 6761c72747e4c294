"""A small decoder with every way to checkpoint its blocks, and its arithmetic."""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, set_checkpoint_early_stop

BATCH, SEQ, WIDTH, HEADS, LAYERS, CLASSES = 2, 32, 64, 4, 3, 10
TOKENS = BATCH * SEQ
PRODUCTS = {"qkv": 3, "out": 1, "up": 4, "down": 4}
"""MACs of each linear, in units of one token times a square of the width."""
SQUARE = TOKENS * WIDTH * WIDTH
SCORES = BATCH * SEQ * SEQ * WIDTH
"""MACs of the scores of one attention; the values take as many."""
KEPT = [torch.ops.aten.addmm.default, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default]
"""What selective checkpointing keeps here."""


@dataclass(frozen=True)
class How:
    """A way to checkpoint a block; none at all by default."""

    name: str = "plain"

    def __call__(self, block, x):
        if self.name == "plain":
            return block(x)
        if self.name == "reentrant":
            return checkpoint(block, x, use_reentrant=True)
        selective = {"context_fn": partial(create_selective_checkpoint_contexts, KEPT)}
        with set_checkpoint_early_stop(False):
            return checkpoint(block, x, use_reentrant=False, **(selective if self.name == "selective" else {}))


CHECKPOINTS = ("reentrant", "non-reentrant", "selective")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = self.qkv(self.norm_1(x)).view(BATCH, SEQ, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind()
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(BATCH, SEQ, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Transformer(nn.Module):
    def __init__(self, how="plain", *, head=True):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, CLASSES) if head else nn.Identity()
        self.how = How(how)

    def forward(self, x):
        for block in self.blocks:
            x = self.how(block, x)
        return self.head(x)


def tokens(*, grad=True, device="cpu"):
    return torch.randn(BATCH, SEQ, WIDTH, requires_grad=grad, device=device)
