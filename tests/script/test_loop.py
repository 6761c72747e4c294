"""A loop that is watched, in this process: what ends the profile, whose steps count, and what a step is."""

import threading

import torch
from torch import nn

from flopsight.loop.window import StepWindow
from flopsight.script.script_loop import ScriptLoop
from flopsight.script.search import Search


class Small(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


MACS = 5 * (4 * 3 + 3 * 2)


def train(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(5, 4)).square().mean().backward()
    optimizer.step()


def looped(search, body, steps=9):
    """The loop after its last step, the profiles that it handed over, and its failures."""
    profiles, failures = [], []
    loop = ScriptLoop(search, on_profile=profiles.append, on_failure=failures.append)
    loop.watch()
    try:
        for _ in range(steps):
            body()
    finally:
        loop.end(None)
    return loop, profiles, failures


def test_a_failure_of_ours_ends_the_profile_and_not_the_loop(monkeypatch):
    model = Small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monkeypatch.setattr(StepWindow, "_begin", lambda self: 1 / 0)

    loop, profiles, failures = looped(Search(3, 3), lambda: train(model, optimizer))

    assert profiles == []
    assert [type(failure) for failure in failures] == [ZeroDivisionError]
    assert loop.delivered


def test_steps_of_another_thread_are_not_ours():
    model, other = Small(), Small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    aside = torch.optim.SGD(other.parameters(), lr=0.1)

    def body():
        train(model, optimizer)
        thread = threading.Thread(target=lambda: train(other, aside))
        thread.start()
        thread.join()

    loop, profiles, _ = looped(Search(4, 4), body)

    assert loop.cycle.steps == 6  # up to the end of the window: the step after it was timed
    assert profiles[0].macs == MACS


def test_many_optimizers_in_one_step_are_one_step():
    """One optimizer a parameter, each stepping in backward as soon as its gradient is there."""
    model = Small()
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)

    _, profiles, _ = looped(Search(3, 3), lambda: model(torch.ones(5, 4)).square().mean().backward())

    (profile,) = profiles
    assert profile.step == 3
    assert profile.macs == MACS
    assert profile.optimizer.flops > 0


def test_a_window_that_no_model_ran_in_is_a_failure_that_names_what_ran():
    weight, relu = nn.Parameter(torch.ones(2)), nn.ReLU()
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def body():
        relu(weight).sum().backward()
        optimizer.step()

    loop, profiles, failures = looped(Search(3, 3), body)

    assert (loop.delivered, profiles) == (True, [])
    assert "No model with parameters was called in step 3; modules called: ReLU." in str(failures[0])
