"""Honest times of a single step, by a clock that the test moves."""

from compat.profiling import X
from fake_clock import FakeClock
from torch import nn
from toys import ROWS, WIDE

from flopsight.capture.time import clock
from flopsight.loop.oneshot import OneShot
from flopsight.results.caveats import CountedLive, NoTwin

TIME = FakeClock()


class Takes(nn.Module):
    """A layer that takes its time, on a twin as well."""

    def __init__(self, seconds):
        super().__init__()
        self.layer, self.seconds = nn.Linear(WIDE, WIDE, bias=False), seconds

    def forward(self, x):
        TIME.pass_by(self.seconds)
        return self.layer(x)


def watched(model, times=1):
    TIME.seconds = 0.0
    watch = OneShot(model, TIME.clock)
    watch.start()
    for _ in range(times):
        model(X)
    watch.stop()
    return watch.profile, TIME.seconds


def test_the_time_of_the_twin_is_left_out():
    profile, passed = watched(nn.Sequential(Takes(1.0), Takes(2.0)))

    assert passed == 6.0  # the twin took three seconds, the model took three
    assert profile.latency == 3.0
    assert (profile["0"].latency, profile["1"].latency, profile.root.latency) == (1.0, 2.0, 3.0)
    assert profile.macs == 2 * ROWS * WIDE * WIDE
    assert not any(isinstance(doubt, CountedLive) for doubt in profile.caveats)


def test_the_times_of_several_forwards_are_summed():
    profile, passed = watched(nn.Sequential(Takes(1.0), Takes(2.0)), times=3)

    assert (profile.latency, passed) == (9.0, 18.0)
    assert profile["1"].latency == 6.0


def test_a_step_that_was_counted_while_it_ran_says_so_and_why():
    model = nn.Sequential(Takes(1.0), Takes(2.0))
    model[1].register_forward_hook(lambda *_: None)

    profile, passed = watched(model)

    (doubt,) = [doubt for doubt in profile.caveats if isinstance(doubt, CountedLive)]
    assert "1 (Takes) has hooks" in str(doubt)
    assert "latency is too high" in str(doubt)
    assert "Caveat: This step was counted while it was timed" in profile.render("deepspeed")
    assert profile.latency == passed == 3.0
    assert profile.macs == 2 * ROWS * WIDE * WIDE
    assert not any(isinstance(doubt, NoTwin) for doubt in profile.caveats)


def test_a_profiler_around_another_does_not_time_the_other_s_twin(monkeypatch):
    monkeypatch.setattr(clock, "perf_counter", TIME.read)
    TIME.seconds = 0.0
    part = Takes(1.0)
    whole = nn.Sequential(part, Takes(2.0))
    inner, outer = OneShot(part), OneShot(whole)

    outer.start()
    inner.start()
    whole(X)
    inner.stop()
    outer.stop()

    assert TIME.seconds == 3.0 + 1.0 + 3.0  # the outer's twin, the inner's, the model
    assert (outer.profile.latency, inner.profile.latency) == (3.0, 1.0)
    assert outer.profile["0"].latency == 1.0
