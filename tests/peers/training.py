"""Cases of one training step: forward, then backward from the sum of the outputs.

A layer's forward is one set of products, the gradient of its weights another, that of its input a third. The first layer's
input needs no gradient, frozen weights need none, a checkpointed block runs forward twice.
"""

import torch
import torch.nn.functional as F
from peers import layers, models, structures
from peers.case import Case
from peers.layers import given
from peers.structures import ONE, ROWS, SIDE, square
from torch import nn
from torch.utils.checkpoint import checkpoint


def trained(name, build, args, macs):
    return Case(name, "training", build, args, macs, inference=False)


def pile(*parts):
    return lambda: nn.Sequential(*(part() for part in parts))


class NeedsInput(nn.Module):
    """Makes its input depend on a parameter, so that the layer behind it passes a gradient on."""

    def __init__(self, layer):
        super().__init__()
        self.scale, self.layer = nn.Parameter(torch.ones(1)), layer

    def forward(self, *args):
        return self.layer(*(arg * self.scale for arg in args))


class Frozen(nn.Sequential):
    """The first layers of a model are not trained."""

    def __init__(self):
        super().__init__(square(), nn.ReLU(), square(), nn.ReLU(), square())
        self[0].requires_grad_(False)
        self[2].requires_grad_(False)


class Adapter(nn.Module):
    """A low-rank adapter beside frozen weights, behind a trained layer."""

    def __init__(self):
        super().__init__()
        self.first, self.frozen = square(), square().requires_grad_(False)
        self.down, self.up = nn.Linear(SIDE, 16, bias=False), nn.Linear(16, SIDE, bias=False)

    def forward(self, x):
        x = self.first(x)
        return self.frozen(x) + self.up(self.down(x))


class Student(nn.Module):
    """A teacher without gradients beside a student."""

    def __init__(self):
        super().__init__()
        self.teacher, self.student = nn.Sequential(square(), square()), nn.Sequential(square(), square())

    def forward(self, x):
        with torch.no_grad():
            target = self.teacher(x)
        return (self.student(x) - target).square()


class Detached(nn.Module):
    """The second layer learns, the first one does not hear of it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = square(), square()

    def forward(self, x):
        x = self.first(x)
        return self.second(x.detach()) + x


class Checkpointed(nn.Module):
    """Backward runs the block again, up to the last input that it needs: the second layer's output is not needed."""

    def __init__(self):
        super().__init__()
        self.first, self.inner = square(), nn.Sequential(square(), nn.ReLU(), square())

    def forward(self, x):
        return checkpoint(self.inner, self.first(x), use_reentrant=False)


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.weight = square(), nn.Parameter(torch.randn(SIDE, SIDE))

    def forward(self, x):
        return torch.einsum("ij,jk->ik", self.first(x), self.weight)


class TwoActivations(nn.Module):
    """A product of what two layers made."""

    def __init__(self):
        super().__init__()
        self.left, self.right = square(), square()

    def forward(self, x):
        return self.left(x) @ self.right(x).t()


class Attention(nn.Module):
    """Projections and attention, fused or by two products."""

    def __init__(self, fused):
        super().__init__()
        self.qkv, self.out, self.fused = nn.Linear(64, 192, bias=False), nn.Linear(64, 64, bias=False), fused

    def forward(self, x):
        query, key, value = self.qkv(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        attend = F.scaled_dot_product_attention if self.fused else structures.eager
        return self.out(attend(query, key, value).transpose(1, 2).flatten(2))


QKV, OUT, MIX = 2 * 24 * 64 * 192, 2 * 24 * 64 * 64, structures.MIX
LSTM = layers.STEPS * layers.BATCH * 4 * layers.ONE_GATE
LSTM_INPUT = layers.STEPS * layers.BATCH * 4 * layers.HIDDEN * layers.WIDTH
DEPTHWISE, WIDE, NARROW = 14 * 14 * 192 * 9, 14 * 14 * 32 * 192, 14 * 14 * 192 * 32
CONV, TRANSPOSED = 2 * 14 * 14 * 32 * 16 * 9, 2 * 8 * 8 * 32 * 16 * 16
GROUPED = 2 * 100 * 64 * 16 * 9
TIED = 2 * 16 * SIDE * 500
FIRST_OF_RESNET = models.conv(3, 64, 7, 112)
ENCODER = structures.ENCODER
X = given((ROWS, SIDE))

CASES = [
    trained("one Linear: no gradient of its input", square, X, 2 * ONE),
    trained("one Linear behind a parameter", lambda: NeedsInput(square()), X, 3 * ONE),
    trained("three Linear layers", pile(square, nn.ReLU, square, nn.ReLU, square), X, (2 + 3 + 3) * ONE),
    trained("first layers frozen", Frozen, X, (1 + 1 + 2) * ONE),
    trained("frozen weights behind a trained layer", Adapter, X, 2 * ONE + 2 * ONE + 3 * 2 * ROWS * SIDE * 16),
    trained("teacher and student", Student, X, 2 * ONE + (2 + 3) * ONE),
    trained("detached branch", Detached, X, (2 + 2) * ONE),
    trained("checkpointed block", Checkpointed, X, (2 + 3 + 3) * ONE + ONE),
    trained("one module called three times", structures.Thrice, X, (2 + 3 + 3) * ONE),
    trained("tied weights", structures.Tied, lambda: (torch.zeros(2, 16, dtype=torch.long),), 3 * TIED),
    trained("einsum", Einsum, X, (2 + 3) * ONE),
    trained("product of two activations", TwoActivations, X, 2 * 2 * ONE + 3 * ROWS * ROWS * SIDE),
    trained("autograd function of one's own", pile(square, structures.CustomFunction), X, (2 + 3) * ONE),
    trained("experts in a loop, two of four", lambda: NeedsInput(structures.Experts()), X,
            3 * (ROWS * SIDE * 4 + 2 * ONE)),
    trained("Conv2d", lambda: nn.Conv2d(16, 32, 3, padding=1), given((2, 16, 14, 14)), 2 * CONV),
    trained("Conv2d behind a parameter", lambda: NeedsInput(nn.Conv2d(16, 32, 3, padding=1)), given((2, 16, 14, 14)), 3 * CONV),
    trained("Conv2d, 4 groups", lambda: NeedsInput(nn.Conv2d(64, 64, 3, padding=1, groups=4)), given((2, 64, 10, 10)),
            3 * GROUPED),
    trained("Conv2d, depthwise", lambda: NeedsInput(nn.Conv2d(192, 192, 3, padding=1, groups=192, bias=False)),
            given((1, 192, 14, 14)), 3 * DEPTHWISE),
    trained("a block of MobileNetV2", models.InvertedResidual, given((1, 32, 14, 14)), 2 * WIDE + 3 * (DEPTHWISE + NARROW)),
    trained("ConvTranspose2d", lambda: NeedsInput(nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1, bias=False)),
            given((2, 32, 8, 8)), 3 * TRANSPOSED),
    trained("LSTM", lambda: nn.LSTM(layers.WIDTH, layers.HIDDEN), given((layers.STEPS, layers.BATCH, layers.WIDTH)),
            (3 * LSTM, 3 * LSTM - LSTM_INPUT)),
    trained("attention by two products", lambda: Attention(fused=False), given((2, 24, 64)), 2 * QKV + 3 * (OUT + MIX)),
    trained("attention by SDPA", lambda: Attention(fused=True), given((2, 24, 64)),
            (2 * QKV + 3 * (OUT + MIX), 2 * QKV + 3 * (OUT + MIX) + MIX // 2)),
    trained("TransformerEncoderLayer", lambda: NeedsInput(structures.encoder_layer()), given((2, 24, 64)),
            (3 * ENCODER, 3 * ENCODER + MIX // 2)),
    trained("ResNet-18", models.zoo.factory("resnet18"), given((2, 3, 224, 224)), 2 * (3 * models.resnet18() - FIRST_OF_RESNET)),
    trained("BERT-base, 128 tokens", models.zoo.factory("bert-base"), lambda: (torch.zeros(1, 128, dtype=torch.long),),
            3 * models.BERT),
]  # fmt: skip
