"""A window over models that are found when they are called, and over steps that are not like the others."""

import torch
from found_models import MACS, Small, found
from torch import nn

from flopsight.loop.schedule import MOST_MOVES
from flopsight.loop.window import StepWindow
from flopsight.results.caveats import MovedWindow


def train(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(5, 4)).square().mean().backward()
    optimizer.step()


def validate(model):
    model.eval()
    with torch.no_grad():
        model(torch.ones(50, 4))
    model.train()


def windowed(validations, steps=range(2, 4), loops=9):
    """A loop that validates before some of its steps."""
    model = Small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with StepWindow(found(), steps=steps) as window:
        for step in range(loops):
            for _ in range(validations(step)):
                validate(model)
            train(model, optimizer)
            window.step()
    return window


def moves(profile):
    return [caveat for caveat in profile.caveats if isinstance(caveat, MovedWindow)]


def test_a_model_that_is_found_is_the_root_as_if_it_had_been_given():
    model = Small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given, unknown = StepWindow(model, optimizer, steps=[1]), StepWindow(found(), steps=[1])
    for window in (given, unknown):
        with window:
            for _ in range(4):
                train(model, optimizer)
                window.step()

    assert unknown.profile.root.kind == "Small"
    assert {n.path: (n.total, n.params, n.calls) for n in unknown.profile.walk()} == {
        n.path: (n.total, n.params, n.calls) for n in given.profile.walk()
    }
    assert unknown.profile.activation_bytes == given.profile.activation_bytes
    assert unknown.profile.at_peak == given.profile.at_peak


def test_a_loss_without_parameters_is_no_model():
    with StepWindow(found(), steps=[0]) as window:
        nn.MSELoss()(Small()(torch.ones(5, 4)), torch.zeros(5, 2)).backward()
        window.step()

    assert window.profile.root.kind == "Small"
    assert window.profile.outside.forward.flops > 0


def test_a_step_with_a_validation_before_it_is_passed_over():
    profile = windowed(lambda step: 3 if step == 2 else 0).profile

    assert profile.step == 3
    assert profile.macs == MACS
    (moved,) = moves(profile)
    assert (moved.asked, moved.first) == (2, 3)


def test_a_timed_step_with_a_validation_is_passed_over_and_another_is_timed():
    window = windowed(lambda step: step == 3)

    assert window.profile.step == 2
    assert len(window.profile.timing.step.samples) == 1
    assert [step.number for step in window.seen.timed] == [4]
    assert not moves(window.profile)


def test_a_loop_that_looks_at_its_model_in_every_step_is_taken_as_it_is():
    profile = windowed(lambda step: 2).profile

    assert profile.step == 2
    assert profile.macs == MACS + 2 * 10 * MACS
    assert profile.batch_size == 5  # the samples that it learns from


def test_a_window_does_not_run_away_from_steps_that_are_never_alike():
    profile = windowed(lambda step: step, steps=[2], loops=12).profile

    assert profile.step == 2 + MOST_MOVES
