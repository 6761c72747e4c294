"""Runs of our own inside a loop of the user's: what counts and times the loop does not see them."""

import pytest
import torch
from torch import nn

import flopsight

X = torch.ones(2, 8)
MACS = 2 * 8 * 4
OWN_RUNS = {
    "count": lambda model: flopsight.count(model, (X,)),
    "a training step": lambda model: flopsight.count(
        model, (X,), train=True, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)
    ),
    "meta": lambda model: flopsight.count(model, (X,), on="meta"),
    "profile": lambda model: flopsight.profile(model, (X,), warmup=1, repeats=2),
    "get_model_profile": lambda model: flopsight.get_model_profile(model, args=[X], print_profile=False),
}
each = pytest.mark.parametrize("own", OWN_RUNS.values(), ids=OWN_RUNS)


@each
def test_a_recording_around_a_run_of_ours_holds_the_users_work_alone(own):
    model = nn.Linear(8, 4)

    with flopsight.recording(model) as recording:
        model(X)
        own(model)

    profile = recording.profile
    assert (profile.macs, profile.backward.macs, profile.optimizer.flops) == (MACS, 0, 0)
    assert profile.root.calls == 1


@each
def test_a_one_shot_profile_around_a_run_of_ours_holds_the_users_call_alone(own):
    model = nn.Linear(8, 4)
    profiler = flopsight.FlopsProfiler(model)

    profiler.start_profile()
    model(X)
    own(model)
    profiler.stop_profile()

    assert profiler.get_total_macs() == MACS


@each
def test_a_counted_step_of_a_loop_holds_the_loops_work_alone(own):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    with flopsight.step_profiler(model, steps=range(1, 3)) as steps:
        for _ in range(3):
            model(X).sum().backward()
            own(model)
            optimizer.step()
            optimizer.zero_grad()
            steps.step()

    profile = steps.profile
    assert (profile.macs, profile.backward.macs, profile.root.calls) == (MACS, MACS, 1)
    assert profile.optimizer.flops == 8 * 4 + 4, "a gradient, times the learning rate, is added to each parameter"


def test_a_recording_inside_a_recording_holds_the_users_work_and_so_does_the_outer_one():
    model = nn.Linear(8, 4)

    with flopsight.recording() as outer:
        model(X)
        with flopsight.recording() as inner:
            model(X)

    assert (outer.profile.macs, inner.profile.macs) == (2 * MACS, MACS)
