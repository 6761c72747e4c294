"""Cases of attention, and of modules that are put together in unusual ways, for inference."""

import torch
import torch.nn.functional as F
from peers.case import Calls, Case
from peers.layers import given
from torch import nn
from torch.utils.checkpoint import checkpoint

BATCH, HEADS, LENGTH, WIDTH = 2, 4, 24, 64
MIX = 2 * (BATCH * LENGTH * LENGTH * WIDTH)
"""Queries by keys, then scores by values, over all heads together."""
PROJECTIONS = 4 * BATCH * LENGTH * WIDTH * WIDTH
FEED_FORWARD = 2 * BATCH * LENGTH * WIDTH * 4 * WIDTH
HALF = MIX * (LENGTH + 1) // (2 * LENGTH)
"""A causal mask leaves j <= i of the scores."""
HEADED = (BATCH, HEADS, LENGTH, WIDTH // HEADS)


class SelfAttention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class KeywordAttention(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(query=x, key=x, value=x)


def fused(query, key, value):
    return F.scaled_dot_product_attention(query, key, value)


def eager(query, key, value):
    return (query @ key.transpose(-1, -2)).softmax(-1) @ value


def grouped(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)


def causal(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def encoder_layer():
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)


SEQUENCE = given((BATCH, LENGTH, WIDTH))
ENCODER = PROJECTIONS + MIX + FEED_FORWARD
FEW = (BATCH, HEADS // 2, LENGTH, WIDTH // HEADS)
ATTENTION = [
    Case("SDPA", "attention", lambda: Calls(fused), given(HEADED, HEADED, HEADED), MIX),
    Case("SDPA by keyword", "attention", KeywordAttention, given(HEADED), MIX),
    Case("SDPA, causal", "attention", lambda: Calls(causal), given(HEADED, HEADED, HEADED), (MIX, HALF)),
    Case("SDPA, grouped queries", "attention", lambda: Calls(grouped), given(HEADED, FEW, FEW), MIX),
    Case("attention by two products", "attention", lambda: Calls(eager), given(HEADED, HEADED, HEADED), MIX),
    Case("MultiheadAttention, training mode", "attention", lambda: SelfAttention(WIDTH, HEADS, batch_first=True), SEQUENCE,
         PROJECTIONS + MIX, inference=False),
    Case("MultiheadAttention, inference", "attention", lambda: SelfAttention(WIDTH, HEADS, batch_first=True), SEQUENCE,
         PROJECTIONS + MIX),
    Case("TransformerEncoderLayer, training mode", "attention", encoder_layer, SEQUENCE, ENCODER, inference=False),
    Case("TransformerEncoderLayer, inference", "attention", encoder_layer, SEQUENCE, ENCODER),
    Case("TransformerEncoder of two layers", "attention", lambda: nn.TransformerEncoder(encoder_layer(), 2), SEQUENCE,
         2 * ENCODER),
    Case("TransformerDecoderLayer", "attention",
         lambda: nn.TransformerDecoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True),
         given((BATCH, LENGTH, WIDTH), (BATCH, LENGTH, WIDTH)), 2 * (PROJECTIONS + MIX) + FEED_FORWARD),
]  # fmt: skip

ROWS, SIDE = 8, 128
ONE = ROWS * SIDE * SIDE
"""One square layer on all rows."""


def square():
    return nn.Linear(SIDE, SIDE, bias=False)


class ThreeParents(nn.Module):
    def __init__(self):
        super().__init__()
        shared = square()
        self.first, self.second, self.third = (nn.Sequential(shared) for _ in range(3))

    def forward(self, x):
        return self.third(self.second(self.first(x)))


class Thrice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = square()

    def forward(self, x):
        return self.layer(self.layer(self.layer(x)))


class Tied(nn.Module):
    """The head has the embedding's weights."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(500, SIDE), nn.Linear(SIDE, 500, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = square(), square()

    def forward(self, x):
        return self.used(x)


class ForwardByHand(nn.Module):
    """A layer's forward without its hooks."""

    def __init__(self):
        super().__init__()
        self.first, self.second = square(), square()

    def forward(self, x):
        return self.second.forward(self.first(x))


class Keywords(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = square()

    def forward(self, *, left, right):
        return {"out": self.layer(left) + self.layer(right)}


class ByValue(nn.Module):
    """Which branch runs depends on the data."""

    def __init__(self):
        super().__init__()
        self.cheap, self.dear = square(), nn.Sequential(square(), square())

    def forward(self, x):
        return self.dear(x) if x.abs().sum() > 0 else self.cheap(x)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Sequential(square(), nn.ReLU(), square()), square()

    def forward(self, x):
        return self.head(checkpoint(self.inner, x, use_reentrant=False))


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain, self.scripted = square(), torch.jit.script(nn.Sequential(square(), nn.ReLU(), square()))

    def forward(self, x):
        return self.scripted(self.plain(x))


class OwnGradient(torch.autograd.Function):
    """A product with a backward of its own."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight.t(), x.t() @ gradient


class CustomFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(SIDE, SIDE))

    def forward(self, x):
        return OwnGradient.apply(x, self.weight)


class Experts(nn.Module):
    """Two of four experts for each row; every expert multiplies the rows that chose it."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(SIDE, 4, bias=False)
        self.experts = nn.ModuleList(square() for _ in range(4))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            row, place = torch.where(chosen == number)
            out = out.index_add(0, row, expert(x[row]) * weights[row, place, None])
        return out


class GroupedExperts(nn.Module):
    """Four experts in one product of groups of rows."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, SIDE, SIDE, dtype=torch.bfloat16))

    def forward(self, x, ends):
        return torch._grouped_mm(x, self.weight, ends)


def structure(name, build, macs, args=None, kwargs=dict):
    return Case(name, "structure", build, args or given((ROWS, SIDE)), macs, kwargs)


STRUCTURES = [
    structure("one module under three parents", ThreeParents, 3 * ONE),
    structure("one module called three times", Thrice, 3 * ONE),
    structure("tied weights", Tied, 2 * 16 * SIDE * 500, lambda: (torch.zeros(2, 16, dtype=torch.long),)),
    structure("a module that is not called", Unused, ONE),
    structure("forward called by hand", ForwardByHand, 2 * ONE),
    structure("inputs by keyword, output in a dict", Keywords, 2 * ONE, tuple,
              lambda: {"left": torch.randn(ROWS, SIDE), "right": torch.randn(ROWS, SIDE)}),
    structure("a branch that depends on data", ByValue, 2 * ONE),
    structure("checkpointed block", Checkpointed, 3 * ONE),
    structure("scripted submodule", Scripted, 3 * ONE),
    structure("autograd function of one's own", CustomFunction, ONE),
    structure("experts in a loop, two of four", Experts, ROWS * SIDE * 4 + 2 * ONE),
    structure("experts by grouped_mm", GroupedExperts, ONE, lambda: (
        torch.randn(ROWS, SIDE, dtype=torch.bfloat16), torch.tensor([2, 4, 6, 8], dtype=torch.int32))),
    structure("weights by parametrization", lambda: nn.utils.parametrizations.weight_norm(square()), ONE),
]  # fmt: skip

CASES = [*ATTENTION, *STRUCTURES]
