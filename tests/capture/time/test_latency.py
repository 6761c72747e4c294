"""What the summary and the rows say of the same runs, by a clock that the tests move."""

import pytest
import torch
from fake_clock import FakeClock, FakeDeviceClock
from torch import nn

from flopsight.capture.model.model_run import ModelRun
from flopsight.capture.time.latency import measure_latency
from flopsight.results.caveats import Distorted, PhasesApart, UnsteadyModules

MS = 1e-3


class Launched(torch.autograd.Function):
    """The identity; forward and backward each take some of the host's time and then some of the device's."""

    @staticmethod
    def forward(ctx, x, time, forward, backward):
        ctx.time, ctx.backward = time, backward
        time.launch(*forward)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.time.launch(*ctx.backward)
        return gradient, None, None, None


class OnDevice(nn.Module):
    def __init__(self, time, forward, backward):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.work = time, forward, backward

    def forward(self, x):
        return Launched.apply(x * self.weight, *self.work)


class Update(torch.optim.SGD):
    def __init__(self, parameters, time, update):
        super().__init__(parameters, lr=0.1)
        self.work = time, update

    def step(self, closure=None):
        time, update = self.work
        time.launch(*update)
        return super().step(closure)


def trained(forward, backward, update, repeats):
    time = FakeDeviceClock()
    model = OnDevice(time, forward, backward)
    run = ModelRun(model, (torch.ones(1),), train=True, optimizer=Update(model.parameters(), time, update))
    return measure_latency(run, warmup=1, repeats=repeats, clock=time.clock)


def said(found, kind):
    return [caveat for caveat in found.caveats if isinstance(caveat, kind)]


def test_a_step_on_a_device_is_timed_without_waits_and_its_phases_with_them():
    found = trained((1 * MS, 3 * MS), (2 * MS, 4 * MS), (0.5 * MS, 0.5 * MS), repeats=6)

    timing = found.timing
    assert timing.forward.median == pytest.approx((1 + 3) * MS)  # handed over, then done
    assert timing.backward.median == pytest.approx((2 + 4) * MS)
    assert timing.optimizer.median == pytest.approx((0.5 + 0.5) * MS)
    # In a loop the host is ahead, and the device works without a pause.
    assert timing.step.samples == pytest.approx([(3 + 4 + 0.5) * MS] * 6)
    (doubt,) = said(found, PhasesApart)
    assert doubt.ratio == pytest.approx((4 + 6 + 1) / 7.5)
    assert "1.47x the step latency" in str(doubt)


class SlowInput(torch.Tensor):
    """Takes a second to be cut off from the graph that made it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.Tensor.detach:
            args[0].time.pass_by(1.0)
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("clock", [FakeClock, FakeDeviceClock])
def test_the_time_that_we_take_to_get_inputs_ready_is_in_no_phase(clock):
    time = clock()
    time.launch = getattr(time, "launch", lambda host, device: time.pass_by(host + device))
    model = OnDevice(time, (1 * MS, 3 * MS), (2 * MS, 4 * MS))
    given = torch.ones(1).as_subclass(SlowInput).requires_grad_()
    given.time = time

    found = measure_latency(ModelRun(model, (given,), train=True), warmup=1, repeats=2, clock=time.clock)

    assert found.timing.forward.samples == pytest.approx([4 * MS] * 2)
    assert found.timing.step.median < 1.0
    assert found.timing.distortion == pytest.approx(1.0)


def test_a_step_that_waits_for_the_host_takes_the_time_of_the_host():
    found = trained((3 * MS, 1 * MS), (4 * MS, 1 * MS), (1 * MS, 0.5 * MS), repeats=5)

    assert found.timing.step.median == pytest.approx((3 + 4 + 1) * MS)


def test_a_long_step_on_a_device_begins_with_the_device_idle():
    found = trained((1, 3), (2, 4), (0.5, 0.5), repeats=2)

    assert found.timing.step.samples == pytest.approx([1 + 3 + 4 + 0.5] * 2)  # nothing runs before the first launch


def test_phases_that_add_up_to_the_step_are_no_doubt():
    found = trained((0, 3 * MS), (0, 4 * MS), (0, 1 * MS), repeats=2)

    assert found.timing.step.median == pytest.approx(8 * MS)
    assert said(found, PhasesApart) == []


class Backward(torch.autograd.Function):
    """The identity, whose backward calls a function."""

    @staticmethod
    def forward(ctx, x, run):
        ctx.run = run
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.run()
        return gradient, None


def test_phases_and_step_of_the_same_runs_are_no_doubt_though_their_medians_do_not_add_up():
    time = FakeClock()
    forwards, backwards = (iter(seconds) for seconds in ((1.0, 4.0, 4.0), (5.0, 1.0, 5.0)))

    class Layer(nn.Linear):
        def forward(self, x):
            if nn.Module.__call__ is plain:
                time.pass_by(next(forwards))
            return Backward.apply(super().forward(x), self.take)

        @staticmethod
        def take():
            if nn.Module.__call__ is plain:
                time.pass_by(next(backwards))

    plain = nn.Module.__call__
    found = measure_latency(ModelRun(Layer(1, 1), (torch.ones(1),), train=True), warmup=0, repeats=3, clock=time.clock)

    assert found.timing.step.median == 6.0  # of 1 + 5, 4 + 1, 4 + 5
    assert found.timing.forward.median + found.timing.backward.median == 4.0 + 5.0
    assert said(found, PhasesApart) == []


def test_the_backward_of_modules_is_that_of_the_run_with_the_median_time():
    """The loss of another run took long: its modules' shares of that run would be too small."""
    time, plain = FakeClock(), nn.Module.__call__
    layers, losses = (iter(seconds) for seconds in ((1.0, 2.0, 3.0), (1.0, 20.0, 1.0)))

    def take(seconds):
        time.pass_by(2.0 if nn.Module.__call__ is plain else next(seconds))

    def loss(output):
        take(losses)
        return output.sum()

    class Layer(nn.Linear):
        def forward(self, x):
            return Backward.apply(super().forward(x), lambda: take(layers))

    run = ModelRun(Layer(1, 1), (torch.ones(1),), train=True, loss=loss)
    found = measure_latency(run, warmup=1, repeats=3, clock=time.clock)

    assert found.timing.backward.median == 2.0 + 2.0
    assert found.backward[""] == pytest.approx(4.0 * 3 / (3 + 1))  # runs took 2, 22 and 4 seconds


class Takes(nn.Module):
    """A module that takes some time, then runs its children."""

    def __init__(self, time, seconds, *children):
        super().__init__()
        self.time, self.seconds, self.inner = time, seconds, nn.ModuleList(children)

    def forward(self, x):
        self.time.pass_by(self.seconds() if callable(self.seconds) else self.seconds)
        for child in self.inner:
            x = child(x)
        return x + 0


@pytest.mark.parametrize("slower", [2.0, 0.5])
def test_module_times_are_scaled_to_the_plain_latency_and_the_difference_is_said(slower):
    """On a busy machine the runs with marks may take twice the time of the plain ones, or half of it."""
    time, plain = FakeClock(), nn.Module.__call__

    def pace(seconds):
        return lambda: seconds * (1.0 if nn.Module.__call__ is plain else slower)

    model = Takes(time, pace(1), Takes(time, pace(3)))
    found = measure_latency(ModelRun(model, (torch.ones(1),)), warmup=1, repeats=4, clock=time.clock)

    assert found.timing.forward.median == 4
    assert found.timing.distortion == slower
    assert found.forward == {"": 4, "inner.0": 3}
    (doubt,) = said(found, Distorted)
    assert (
        str(doubt)
        == f"Per-module times come from a pass {slower:.2f}x as long as the plain one; they are scaled to the plain one."
    )


def test_backward_times_are_scaled_to_the_plain_backward():
    time, plain = FakeClock(), nn.Module.__call__

    class Slowly(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            time.pass_by(3.0 if nn.Module.__call__ is plain else 6.0)
            return gradient

    class Layer(nn.Module):
        def forward(self, x):
            time.pass_by(1.0)
            return Slowly.apply(x)

    model = nn.Sequential(Layer(), nn.Linear(1, 1), Layer())
    found = measure_latency(ModelRun(model, (torch.ones(1),), train=True), warmup=1, repeats=2, clock=time.clock)

    assert found.timing.backward.median == 3.0  # the input needs no gradient, so the first layer has no backward
    assert found.backward[""] == pytest.approx(3.0)
    assert found.backward["2"] == pytest.approx(3.0)


def test_a_module_whose_share_varies_is_named_with_its_spread():
    time = FakeClock()
    turns = iter([0.01, 0.01, 0.03, 0.03] * 25)  # plain runs and those with marks take turns
    steady, unsteady = Takes(time, 0.4), Takes(time, lambda: next(turns))
    model = Takes(time, 0.0, steady, unsteady)

    found = measure_latency(ModelRun(model, (torch.ones(1),)), warmup=0, repeats=8, clock=time.clock)

    (doubt,) = said(found, UnsteadyModules)
    assert doubt.modules == ("inner.1",)
    often, seldom = 3 / 43, 1 / 41  # its share of a whole run
    assert doubt.spreads == (pytest.approx((often - seldom) / ((often + seldom) / 2)),)
    assert "inner.1 96%" in str(doubt)


def test_modules_that_keep_their_share_are_not_named():
    time = FakeClock()
    model = Takes(time, 0.0, Takes(time, 4.0), Takes(time, 2.0))

    found = measure_latency(ModelRun(model, (torch.ones(1),)), warmup=0, repeats=8, clock=time.clock)

    assert said(found, UnsteadyModules) == []
