"""A small model that does work of its own beside its submodules' and has parameters of odd sizes, counted by hand."""

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, INNER, CLASSES, BATCH = 33, 64, 5, 4

MACS = BATCH * (WIDTH * INNER + INNER * CLASSES)
# products; biases; ReLU and scale, which the model does itself; the loss: log-softmax of five FLOPs, one pick a row
FLOPS = 2 * MACS + BATCH * (INNER + CLASSES) + 2 * BATCH * INNER + 5 * BATCH * CLASSES + BATCH
SIZES = (1, WIDTH * INNER, INNER, INNER * CLASSES, CLASSES)
PARAMS = sum(SIZES)


class Net(nn.Module):
    """Returns its loss, as models under DeepSpeed do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.scale = nn.Parameter(torch.ones(1))
        self.up = nn.Linear(WIDTH, INNER)
        self.down = nn.Linear(INNER, CLASSES)

    def forward(self, features, labels):
        hidden = F.relu(self.up(features)) * self.scale
        return F.cross_entropy(self.down(hidden), labels)


def batch(step):
    """What one rank is given in one forward."""
    made = torch.Generator().manual_seed(step)
    return torch.randn(BATCH, WIDTH, generator=made), torch.randint(CLASSES, (BATCH,), generator=made)
