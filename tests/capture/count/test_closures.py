"""An optimizer that is handed a closure runs the loop's forward and backward inside its own step."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import flopsight

BATCH, WIDTH = 4, 8


def step(model, images, optimizer, *, by_name):
    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(images), torch.zeros(BATCH, 1))
        loss.backward()
        return loss

    return optimizer.step(closure=closure) if by_name else optimizer.step(closure)


@pytest.mark.parametrize("by_name", [False, True])
def test_what_a_closure_does_is_forward_and_backward_and_not_the_optimizers_work(by_name):
    model = nn.Linear(WIDTH, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    with flopsight.recording(model) as r:
        loss = step(model, torch.ones(BATCH, WIDTH), optimizer, by_name=by_name)

    assert loss.shape == (), "what the closure returned comes back"
    assert r.profile.optimizer.flops == WIDTH  # one scaled addition a weight
    assert r.profile[""].own.forward.macs == BATCH * WIDTH
    assert r.profile.outside.forward.flops > 0, "the loss is forward work outside every module"
    assert r.profile.backward.macs == BATCH * WIDTH  # of the weight; the input needs no gradient


def test_a_closure_that_raises_leaves_the_next_step_right():
    model = nn.Linear(WIDTH, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fail():
        raise ValueError("no loss")

    with flopsight.recording(model) as r:
        with pytest.raises(ValueError, match="no loss"):
            optimizer.step(fail)
        torch.ones(WIDTH) + 1
        step(model, torch.ones(BATCH, WIDTH), optimizer, by_name=False)

    assert r.profile.optimizer.flops == WIDTH
    assert r.profile[""].own.forward.macs == BATCH * WIDTH
