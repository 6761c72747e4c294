"""Small training loops with their arithmetic."""

import torch
from torch import nn

import flopsight

WIDE, HIDDEN, OUT = 8, 16, 2


def mlp():
    return nn.Sequential(nn.Linear(WIDE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, OUT))


def mlp_flops(rows, *, first_frozen=False):
    """Two a MAC: forward, both weights' gradients, and the gradient that goes through the second layer."""
    up, down = rows * WIDE * HIDDEN, rows * HIDDEN * OUT
    if first_frozen:  # nothing below the second layer needs a gradient
        return 2 * (up + down + down)
    return 2 * ((up + down) + (up + down) + down)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def one_step(model, optimizer, *batches):
    optimizer.zero_grad()
    for batch in batches:
        model(batch).square().mean().backward()
    optimizer.step()


def rows(count, seed=0):
    return torch.randn(count, WIDE, generator=torch.Generator().manual_seed(seed))


def watched(steps, model=None, **options):
    """Run `steps(model, optimizer, live)` in a monitor; gives the records and the monitor."""
    model = mlp() if model is None else model
    optimizer = sgd(model)
    seen = []
    with flopsight.monitor(model, optimizer, to=[seen.append], **options) as live:
        steps(model, optimizer, live)
    return seen, live


def model_flops(seen):
    return [record["flopsight/model_flops"] for record in seen]
