"""Modes and hooks of a user's that come and go in another order than ours: each leaves with its own, and all count right."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

import flopsight
from flopsight.capture.count.saved import Saved

X = torch.ones(4, 8)
LAYER = 4 * 8 * 8
"""MACs of one layer's forward; its backward without a gradient for the input is as much."""


def net():
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))


def steps(model, *, around=nullcontext, step_inside=True):
    """The profile of three steps in a loop of five, and what was around the last of its bodies."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with flopsight.step_profiler(model, optimizer, steps=range(1, 4)) as prof:
        for _ in range(5):
            with around() as last:
                model(X).sum().backward()
                optimizer.step()
                if step_inside:
                    prof.step()
            if not step_inside:
                prof.step()
    return prof.profile, last


def test_recordings_that_end_in_the_order_in_which_they_began():
    model = net()
    first, second = flopsight.recording(model), flopsight.recording(model)

    first.__enter__()
    second.__enter__()
    model(X)
    first.__exit__(None, None, None)
    model(X)
    second.__exit__(None, None, None)

    assert (first.profile.macs, second.profile.macs) == (2 * LAYER, 4 * LAYER)


@pytest.mark.parametrize("step_inside", [True, False])
def test_a_step_that_ends_within_a_user_s_mode(step_inside):
    profile, theirs = steps(net(), around=lambda: FlopCounterMode(display=False), step_inside=step_inside)

    assert profile.macs == 2 * LAYER
    assert profile.backward.macs == 3 * LAYER
    assert theirs.get_total_flops() == 2 * 5 * LAYER


def test_a_user_s_mode_that_ends_after_a_counted_step_began():
    model, theirs = net(), FlopCounterMode(display=False)
    with flopsight.step_profiler(model, steps=range(1, 4)) as prof:
        for i in range(5):
            if not i:
                theirs.__enter__()
            model(X)
            prof.step()
            if not i:
                theirs.__exit__(None, None, None)

    assert prof.profile.macs == 2 * LAYER
    assert theirs.get_total_flops() == 2 * 2 * LAYER


def test_a_mode_that_takes_the_counter_off_is_named():
    model = net()
    with FlopCounterMode(display=False):
        recording = flopsight.recording(model)
        recording.__enter__()
        model(X)
    model(X)
    recording.__exit__(None, None, None)

    assert recording.profile.macs == 2 * LAYER
    assert any("took the counter off" in str(doubt) for doubt in recording.profile.caveats)


def test_hooks_that_take_ours_off_are_gone_when_the_count_ends():
    model = net()
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        recording = flopsight.recording(model)
        recording.__enter__()
        model(X)
    recording.__exit__(None, None, None)

    assert recording.profile.macs == 2 * LAYER


@pytest.mark.parametrize("first", [0, 1])
def test_two_windows_that_count_neighbouring_steps(first):
    model = net()
    windows = [flopsight.step_profiler(model, steps=range(1 + i, 4 + i)) for i in range(2)]
    with windows[first], windows[1 - first]:
        for _ in range(6):
            model(X)
            windows[first].step()
            windows[1 - first].step()

    assert [window.profile.macs for window in windows] == [2 * LAYER] * 2


@pytest.mark.parametrize("step_inside", [True, False])
@pytest.mark.parametrize("hooks", [save_on_cpu, lambda: saved_tensors_hooks(lambda t: t, lambda t: t)])
def test_saved_tensor_hooks_around_the_body_of_a_loop(hooks, step_inside):
    profile, _ = steps(net(), around=hooks, step_inside=step_inside)

    assert profile.activation_bytes == 4 * 8 * 4  # what the first layer hands to the second


def test_inside_torch_func_all_but_the_saved_tensors_is_counted():
    model = nn.Linear(8, 8)
    profiler = flopsight.FlopsProfiler(model)

    profiler.start_profile()
    torch.func.grad(lambda x: model(x).sum())(X)
    profiler.stop_profile()

    assert profiler.get_total_macs() == LAYER
    assert any("saved-tensor hooks are disabled" in str(doubt) for doubt in profiler.profile.caveats)


def test_where_saved_tensors_may_have_no_hooks_all_else_is_counted():
    with disable_saved_tensors_hooks("not here"):
        profile = flopsight.count(net(), (X,), train=True)

    assert profile.macs == 2 * LAYER
    assert profile.backward.macs == 3 * LAYER
    assert any("saved-tensor hooks are disabled" in str(doubt) for doubt in profile.caveats)


def test_a_counter_that_cannot_begin_leaves_nothing_behind(monkeypatch):
    def refuses(*_args, **_options):
        raise RuntimeError

    monkeypatch.setattr(Saved, "watching", refuses)

    with pytest.raises(RuntimeError):
        flopsight.count(net(), (X,))
