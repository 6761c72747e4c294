"""A training loop whose every part takes the time that the test says, by a clock that the test moves."""

import torch
from torch import nn

ROWS, WIDE, OUT = 4, 8, 2
MACS = ROWS * WIDE * OUT
PARAMS = WIDE * OUT


class Slow(torch.autograd.Function):
    """The identity, with a backward that takes its time."""

    @staticmethod
    def forward(ctx, x, time, seconds):
        ctx.time, ctx.seconds = time, seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.time.pass_by(ctx.seconds)
        return gradient, None, None


class Layer(nn.Module):
    """A linear whose forward and backward take `pace` and twice `pace` seconds."""

    def __init__(self, time):
        super().__init__()
        self.linear = nn.Linear(WIDE, OUT, bias=False)
        self.time, self.pace = time, 1.0

    def forward(self, x):
        self.time.pass_by(self.pace)
        return self.linear(Slow.apply(x, self.time, 2 * self.pace))


class Descent(torch.optim.SGD):
    """Gradient descent, half a second a step."""

    def __init__(self, parameters, time):
        super().__init__(parameters, lr=0.01)
        self.time = time

    def step(self, closure=None):
        self.time.pass_by(0.5)
        return super().step(closure)


def rows(count=ROWS):
    return torch.randn(count, WIDE, requires_grad=True)
