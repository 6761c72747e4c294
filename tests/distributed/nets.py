"""The small nets of the tests with several ranks: two Pairs, and what they cost, worked out by hand."""

import torch
from torch import nn

BATCH, WIDTH, INNER = 8, 16, 32
PRODUCT = BATCH * WIDTH * INNER
"""MACs of one of the two layers of a Pair: 4,096."""
X = (BATCH, WIDTH)


class Pair(nn.Module):
    """Up, ReLU, down: 2 x 512 parameters, 2 x 4,096 MACs."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def net():
    """Two Pairs: 2,048 parameters, 16,384 MACs; backward 7 products of 8, as the input needs no gradient."""
    return nn.Sequential(Pair(), Pair())


def batch():
    return torch.randn(X)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.ff = Pair()

    def forward(self, x):
        return x + self.ff(self.norm(x))


VOCABULARY, SEQUENCES, LENGTH = 64, 2, 8
TOKENS = SEQUENCES * LENGTH


class Language(nn.Module):
    """Embedding, block, head."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCABULARY, WIDTH)
        self.blk = Block()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        return self.head(self.blk(self.emb(tokens)))
