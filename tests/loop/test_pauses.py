"""A window in a loop that somebody else runs: told when a step begins and ends, and left alone when the model raises."""

import pytest
import torch
from fake_clock import FakeClock
from torch import nn

from flopsight.loop.window import StepWindow

BATCH, WIDTH = 4, 8
MACS = BATCH * WIDTH


class Waiting(nn.Linear):
    """A layer whose forward takes a second."""

    def __init__(self, time):
        super().__init__(WIDTH, 1, bias=False)
        self.time = time

    def forward(self, x):
        self.time.pass_by(1.0)
        return super().forward(x)


def test_what_runs_between_pause_and_resume_belongs_to_no_step():
    time = FakeClock()
    model = Waiting(time)
    window = StepWindow(model, steps=range(1, 4), clock=time.clock)
    for _ in range(5):
        window.resume()
        model(torch.ones(BATCH, WIDTH)).sum().backward()
        window.pause()
        model(torch.ones(100, WIDTH))  # with gradients, as nothing tells it from training

    profile = window.profile

    assert window.done
    assert (profile.macs, profile.root.calls, profile.batch_size) == (MACS, 1, BATCH)
    assert profile.timing.iteration.samples == (1.0, 1.0)
    assert profile.timing.data_wait.samples == (0.0, 0.0)


def test_time_since_the_pause_is_waiting_for_data_where_the_loop_says_so():
    time = FakeClock()
    model = Waiting(time)
    window = StepWindow(model, steps=range(1, 4), clock=time.clock)
    for step in range(5):
        time.pass_by(0.5)
        window.resume(waited=step != 3)
        model(torch.ones(BATCH, WIDTH)).sum().backward()
        window.pause()

    timing = window.profile.timing

    assert timing.data_wait.samples == (0.5, 0.0)
    assert timing.iteration.samples == (1.5, 1.0)
    assert timing.forward.samples == (1.0, 1.0)


@pytest.mark.parametrize("failing", [1, 2])
def test_a_guarded_window_takes_itself_off_when_the_model_raises(failing):
    model = nn.Linear(WIDTH, 1, bias=False)
    window = StepWindow(model, steps=range(1, 4), guarded=True)
    with pytest.raises(RuntimeError):
        for step in range(5):
            window.resume()
            model(torch.ones(BATCH, WIDTH + (step == failing))).sum().backward()
            window.pause()

    torch.ones(3) * 2  # counted by nobody; that nothing stays patched is what the fixture of every test holds
    assert window.profile.macs == (MACS if failing == 2 else 0)
    assert any("step 1" in str(caveat) for caveat in window.profile.caveats)


def test_a_guarded_window_takes_itself_off_when_backward_raises():
    class Refusing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise RuntimeError("no gradient")

    model = nn.Linear(WIDTH, 1, bias=False)
    window = StepWindow(model, steps=range(1), guarded=True)
    window.resume()
    with pytest.raises(RuntimeError, match="no gradient"):
        Refusing.apply(model(torch.ones(BATCH, WIDTH))).sum().backward()

    assert window.profile.macs == MACS
