"""An optimizer that steps inside a forward, as fast weights and test-time training do, does optimizer work."""

import torch
from torch import nn

import flopsight

ROWS, WIDTH = 4, 8


class FastWeights(nn.Module):
    """Takes a step of gradient descent on its layer, then runs it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, bias=False)
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=0.1, foreach=False)

    def forward(self, batch):
        self.optimizer.zero_grad()
        self.layer(batch).sum().backward()
        self.optimizer.step()
        return self.layer(batch)


def test_a_step_inside_a_forward_is_optimizer_work_of_the_layers_it_changes():
    model = FastWeights()

    with flopsight.recording(model) as recording:
        model(torch.ones(ROWS, WIDTH))

    layer = recording.profile["layer"].own
    assert layer.optimizer.flops == WIDTH * WIDTH, "p -= lr * g, one FLOP an element as torch's alpha add"
    assert layer.forward.macs == 2 * ROWS * WIDTH * WIDTH
    assert layer.backward.macs == ROWS * WIDTH * WIDTH
    assert recording.profile.root.own.optimizer.flops == 0


def test_a_module_that_an_optimizers_step_calls_is_a_forward():
    model = nn.Linear(WIDTH, WIDTH, bias=False)

    class LooksAhead(torch.optim.SGD):
        def step(self, closure=None):
            super().step()
            model(torch.ones(ROWS, WIDTH))

    optimizer = LooksAhead(model.parameters(), lr=0.1)
    with flopsight.recording(model) as recording:
        model(torch.ones(ROWS, WIDTH)).sum().backward()
        optimizer.step()

    assert recording.profile.root.own.forward.macs == 2 * ROWS * WIDTH * WIDTH
