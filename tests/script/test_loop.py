"""A loop that is watched, in this process: what ends the profile, whose steps count, and what a step is."""

import threading

import pytest
import torch
from torch import nn

from flopsight.loop.window import StepWindow
from flopsight.script.plan import Plan
from flopsight.script.script_loop import ScriptLoop


class Small(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


MACS = 5 * (4 * 3 + 3 * 2)


def train(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(5, 4)).square().mean().backward()
    optimizer.step()


@pytest.fixture(name="delivered")
def _delivered():
    return []


def looped(plan, delivered, body, steps=9):
    loop = ScriptLoop(plan, delivered.append)
    loop.watch()
    try:
        for _ in range(steps):
            body()
    finally:
        rest = loop.end(None)
    return loop, rest


def test_a_failure_of_ours_ends_the_profile_and_not_the_loop(delivered, monkeypatch):
    model = Small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monkeypatch.setattr(StepWindow, "_begin", lambda self: 1 / 0)

    loop, _ = looped(Plan(3, 3), delivered, lambda: train(model, optimizer))

    (make,) = delivered
    with pytest.raises(ZeroDivisionError):
        make()
    assert loop.delivered


def test_steps_of_another_thread_are_not_ours(delivered):
    model, other = Small(), Small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    aside = torch.optim.SGD(other.parameters(), lr=0.1)

    def body():
        train(model, optimizer)
        thread = threading.Thread(target=lambda: train(other, aside))
        thread.start()
        thread.join()

    loop, _ = looped(Plan(4, 4), delivered, body)

    assert loop.cycle.steps == 6  # up to the end of the window: the step after it was timed
    assert delivered[0]().macs == MACS


def test_many_optimizers_in_one_step_are_one_step(delivered):
    """One optimizer a parameter, each stepping in backward as soon as its gradient is there."""
    model = Small()
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)

    looped(Plan(3, 3), delivered, lambda: model(torch.ones(5, 4)).square().mean().backward())

    profile = delivered[0]()
    assert profile.step == 3
    assert profile.macs == MACS
    assert profile.optimizer.flops > 0
