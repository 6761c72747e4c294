"""Cases of single layers and products, for inference."""

import torch
import torch.nn.functional as F
from peers.case import Calls, Case
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


def given(*shapes):
    """Random inputs of these shapes."""
    return lambda: tuple(torch.randn(*shape) for shape in shapes)


def layer(name, build, shape, macs, group="layers", **more):
    return Case(name, group, build, given(shape), macs, **more)


def function(name, run, shapes, macs, group="products"):
    return Case(name, group, lambda: Calls(run), given(*shapes), macs)


class OwnWeight(nn.Module):
    """A parameter that the forward multiplies itself."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 256))

    def forward(self, x):
        return x @ self.weight


LINEAR = [
    layer("Linear", lambda: nn.Linear(256, 512), (8, 256), 8 * 256 * 512),
    layer("Linear on 3-D input", lambda: nn.Linear(256, 512), (4, 10, 256), 4 * 10 * 256 * 512),
    layer("Linear on 4-D input", lambda: nn.Linear(64, 96, bias=False), (2, 3, 5, 64), 2 * 3 * 5 * 64 * 96),
    layer("LazyLinear", lambda: nn.Sequential(nn.LazyLinear(256), nn.ReLU(), nn.LazyLinear(128)), (4, 192),
          4 * 192 * 256 + 4 * 256 * 128),
    Case("Embedding, then Linear", "layers", lambda: nn.Sequential(nn.Embedding(50, 128), nn.Linear(128, 256)),
         lambda: (torch.zeros(2, 7, dtype=torch.long),), 2 * 7 * 128 * 256),
]  # fmt: skip

CONVOLUTIONS = [
    layer("Conv1d", lambda: nn.Conv1d(32, 64, 5, padding=2), (2, 32, 50), 2 * 50 * 64 * 32 * 5),
    layer("Conv2d", lambda: nn.Conv2d(16, 32, 3, padding=1), (2, 16, 14, 14), 2 * 14 * 14 * 32 * 16 * 9),
    layer("Conv3d", lambda: nn.Conv3d(8, 16, 3, padding=1), (1, 8, 6, 6, 6), 6**3 * 16 * 8 * 27),
    layer("Conv2d, stride 2", lambda: nn.Conv2d(16, 32, 3, stride=2, padding=1), (2, 16, 14, 14), 2 * 7 * 7 * 32 * 16 * 9),
    layer("Conv2d, dilation 2", lambda: nn.Conv2d(16, 32, 3, dilation=2), (1, 16, 14, 14), 10 * 10 * 32 * 16 * 9),
    layer("Conv2d, 1 x 1", lambda: nn.Conv2d(64, 128, 1), (2, 64, 9, 9), 2 * 81 * 64 * 128),
    layer("Conv2d, padding 'same', even kernel", lambda: nn.Conv2d(8, 16, 4, padding="same"), (1, 8, 20, 20),
          20 * 20 * 16 * 8 * 16),
    layer("Conv2d, circular padding", lambda: nn.Conv2d(16, 32, 3, padding=1, padding_mode="circular"), (1, 16, 12, 12),
          12 * 12 * 32 * 16 * 9),
    layer("Conv2d, 4 groups", lambda: nn.Conv2d(64, 64, 3, padding=1, groups=4), (2, 64, 10, 10), 2 * 100 * 64 * 16 * 9),
    layer("Conv2d, depthwise", lambda: nn.Conv2d(64, 64, 7, padding=3, groups=64, bias=False), (2, 64, 10, 10),
          2 * 100 * 64 * 49),
    layer("depthwise, then 1 x 1", lambda: nn.Sequential(
        nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False), nn.Conv2d(64, 128, 1, bias=False)), (1, 64, 12, 12),
        144 * 64 * 9 + 144 * 64 * 128),
    layer("Conv2d without a batch", lambda: nn.Conv2d(16, 32, 3), (16, 10, 10), 8 * 8 * 32 * 16 * 9),
    layer("ConvTranspose1d", lambda: nn.ConvTranspose1d(32, 16, 4, stride=2, padding=1, bias=False), (2, 32, 20),
          2 * 20 * 32 * 16 * 4),
    layer("ConvTranspose2d", lambda: nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1, bias=False), (2, 32, 8, 8),
          2 * 64 * 32 * 16 * 16),
    layer("ConvTranspose3d", lambda: nn.ConvTranspose3d(8, 16, 2, stride=2, bias=False), (1, 8, 4, 4, 4), 64 * 8 * 16 * 8),
    layer("ConvTranspose2d, 4 groups", lambda: nn.ConvTranspose2d(32, 32, 4, stride=2, padding=1, groups=4, bias=False),
          (1, 32, 8, 8), 64 * 32 * 8 * 16),
]  # fmt: skip

PRODUCTS = [
    function("matmul of matrices", lambda a, b: torch.matmul(a, b), [(64, 128), (128, 96)], 64 * 128 * 96),
    function("the operator @", lambda a, b: a @ b, [(64, 128), (128, 96)], 64 * 128 * 96),
    function("bmm", lambda a, b: torch.bmm(a, b), [(4, 32, 64), (4, 64, 48)], 4 * 32 * 64 * 48),
    function("matmul, batch by matrix", lambda a, b: torch.matmul(a, b), [(2, 3, 16, 32), (32, 24)], 2 * 3 * 16 * 32 * 24),
    function("matmul, broadcast batches", lambda a, b: torch.matmul(a, b), [(3, 1, 16, 32), (2, 32, 24)], 3 * 2 * 16 * 32 * 24),
    function("vector by vector", lambda a, b: torch.matmul(a, b), [(512,), (512,)], 512),
    function("matrix by vector", lambda a, b: torch.matmul(a, b), [(64, 128), (128,)], 64 * 128),
    function("addmm", lambda bias, a, b: torch.addmm(bias, a, b), [(96,), (64, 128), (128, 96)], 64 * 128 * 96),
    function("baddbmm", lambda bias, a, b: torch.baddbmm(bias, a, b), [(4, 32, 48), (4, 32, 64), (4, 64, 48)], 4 * 32 * 64 * 48),
    function("einsum of matrices", lambda a, b: torch.einsum("ij,jk->ik", a, b), [(64, 128), (128, 96)], 64 * 128 * 96),
    function("einsum with a batch", lambda a, b: torch.einsum("bij,bjk->bik", a, b), [(4, 32, 64), (4, 64, 48)],
             4 * 32 * 64 * 48),
    function("einsum that sums the batch", lambda a, b: torch.einsum("bij,bjk->ik", a, b), [(4, 32, 64), (4, 64, 48)],
             4 * 32 * 64 * 48),
    function("tensordot", lambda a, b: torch.tensordot(a, b, dims=2), [(16, 8, 32), (8, 32, 24)], 16 * 8 * 32 * 24),
    function("F.linear", lambda x, w: F.linear(x, w), [(4, 10, 128), (96, 128)], 4 * 10 * 128 * 96),
    function("F.conv2d, stride as a list", lambda x, w: F.conv2d(x, w, stride=[2, 2]), [(1, 16, 13, 13), (32, 16, 3, 3)],
             6 * 6 * 32 * 16 * 9),
    function("a convolution by unfold and matmul", lambda x, w: w.flatten(1) @ F.unfold(x, 3, padding=1),
             [(1, 16, 12, 12), (32, 16, 3, 3)], 144 * 32 * 16 * 9),
    function("vmap of a product", lambda a, b: torch.vmap(torch.mv)(a, b), [(4, 32, 64), (4, 64)], 4 * 32 * 64),
    layer("a parameter multiplied in forward", OwnWeight, (8, 128), 8 * 128 * 256, "products"),
]  # fmt: skip

STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 96, 128
ONE_GATE = HIDDEN * (WIDTH + HIDDEN)
"""What one gate of one step of one sample multiplies."""


class Cells(nn.Module):
    """One step at a time, by hand."""

    def __init__(self, kind):
        super().__init__()
        self.cell = kind(WIDTH, HIDDEN)

    def forward(self, x):
        state = None
        for step in x:
            state = self.cell(step, state)
        return state


class Packs(nn.Module):
    """Sequences of 2, 5 and 3 steps."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(WIDTH, HIDDEN, batch_first=True)

    def forward(self, x, lengths):
        return self.rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[0].data


def recurrent(name, build, macs):
    return layer(name, build, (STEPS, BATCH, WIDTH), macs, "recurrent")


RECURRENT = [
    recurrent("RNN", lambda: nn.RNN(WIDTH, HIDDEN), STEPS * BATCH * ONE_GATE),
    recurrent("GRU", lambda: nn.GRU(WIDTH, HIDDEN), STEPS * BATCH * 3 * ONE_GATE),
    recurrent("LSTM", lambda: nn.LSTM(WIDTH, HIDDEN), STEPS * BATCH * 4 * ONE_GATE),
    recurrent("LSTM, two layers, both ways", lambda: nn.LSTM(WIDTH, HIDDEN, num_layers=2, bidirectional=True),
              STEPS * BATCH * 2 * 4 * (ONE_GATE + HIDDEN * (2 * HIDDEN + HIDDEN))),
    recurrent("LSTM with projection", lambda: nn.LSTM(WIDTH, HIDDEN, proj_size=32),
              STEPS * BATCH * (4 * HIDDEN * (WIDTH + 32) + HIDDEN * 32)),
    recurrent("LSTMCell in a loop", lambda: Cells(nn.LSTMCell), STEPS * BATCH * 4 * ONE_GATE),
    recurrent("GRUCell in a loop", lambda: Cells(nn.GRUCell), STEPS * BATCH * 3 * ONE_GATE),
    Case("packed sequences", "recurrent", Packs, lambda: (torch.randn(3, 5, WIDTH), torch.tensor([2, 5, 3])),
         (2 + 5 + 3) * 4 * ONE_GATE),
]  # fmt: skip

CASES = [*LINEAR, *CONVOLUTIONS, *PRODUCTS, *RECURRENT]
