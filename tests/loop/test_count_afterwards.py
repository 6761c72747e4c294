"""A call on a CPU is timed first and counted afterwards, as it was when the model was entered."""

import pytest
import torch
from fake_clock import FakeClock
from torch import nn

from flopsight.capture.time import clock
from flopsight.loop.oneshot import OneShot
from flopsight.results.caveats import CountedLive, Note, NoTwin, OtherPath

ROWS, WIDE = 4, 8
X = torch.ones(ROWS, WIDE)
LAYER = ROWS * WIDE * WIDE


def layer():
    return nn.Linear(WIDE, WIDE, bias=False)


def shot(model, *args, times=1):
    watched = OneShot(model)
    watched.start()
    for _ in range(times):
        model(*(args or (X,)))
    watched.stop()
    return watched.profile


def said(profile, kind):
    return [caveat for caveat in profile.caveats if isinstance(caveat, kind)]


class Stateful(nn.Module):
    """A model that does one layer more in its first forward; where it notes that is for the subclasses to say."""

    def __init__(self):
        super().__init__()
        self.one, self.two = layer(), layer()

    def forward(self, x):
        x = self.one(x)
        if self.is_first():
            x = self.two(x)
        return x


class Attribute(Stateful):
    first = True

    def is_first(self):
        first, self.first = self.first, False
        return first


class InAList(Stateful):
    def __init__(self):
        super().__init__()
        self.seen = []

    def is_first(self):
        self.seen.append(1)
        return len(self.seen) == 1


class InABuffer(Stateful):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))

    def is_first(self):
        self.steps += 1
        return bool(self.steps.item() == 1)


class InATensor(Stateful):
    def __init__(self):
        super().__init__()
        self.steps = torch.zeros(1)

    def is_first(self):
        self.steps += 1
        return bool(self.steps.item() == 1)


@pytest.mark.parametrize("kind", [Attribute, InAList, InABuffer, InATensor])
def test_a_model_that_changes_itself_is_counted_as_it_was_at_entry(kind):
    profile = shot(kind())

    assert profile.macs == 2 * LAYER
    assert profile["two"].calls == 1
    assert said(profile, OtherPath) == []


@pytest.mark.parametrize("kind", [Attribute, InAList, InABuffer, InATensor])
def test_two_calls_are_counted_each_as_it_was(kind):
    assert shot(kind(), times=2).macs == 3 * LAYER


def test_the_change_that_a_call_made_stays():
    model = Attribute()
    listed = InAList()
    shot(model)
    shot(listed)

    assert model.first is False
    assert listed.seen == [1]


def test_an_input_that_the_call_grows_is_counted_with_its_first_shape():
    class Grows(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer()

        def forward(self, batches):
            batches.append(X)
            return sum(map(self.layer, batches))

    batches = [X]
    assert shot(Grows(), batches).macs == 2 * LAYER
    assert len(batches) == 2


def test_a_model_that_does_not_run_on_meta_is_called_again_and_left_as_it_was():
    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls = layer(), 0
            self.register_buffer("total", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            self.total += 1
            y = self.layer(x)
            return y if y.detach().numpy().sum() < 1e9 else x

    model = Looks()
    profile = shot(model)

    assert profile.macs == LAYER
    assert (model.calls, model.total.item()) == (1, 1.0)
    (doubt,) = said(profile, NoTwin)
    assert "numpy" in str(doubt)
    assert said(profile, CountedLive) == []


def test_a_call_that_raises_is_counted_as_far_as_it_came():
    model = nn.Sequential(layer(), nn.Linear(3, 3))

    watched = OneShot(model)
    watched.start()
    with pytest.raises(RuntimeError):
        model(X)

    assert watched.profile.macs == LAYER
    assert any("Costs are those up to there" in str(note) for note in said(watched.profile, Note))


def test_a_call_that_raises_for_its_data_is_counted_as_a_whole():
    class Refuses(nn.Module):
        def forward(self, x):
            if not x.is_meta:
                raise ValueError("no")
            return x

    model = nn.Sequential(layer(), Refuses())
    watched = OneShot(model)
    watched.start()
    with pytest.raises(ValueError, match="no"):
        model(X)

    assert watched.profile.macs == LAYER


def test_a_copy_without_data_that_takes_another_path_is_said_to():
    class Chooses(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = layer(), layer()

        def forward(self, x):
            return self.one(x) if x.untyped_storage().device.type == "meta" else self.two(self.two(x))

    (doubt,) = said(shot(Chooses()), OtherPath)

    assert (doubt.module, doubt.timed, doubt.counted, doubt.modules) == ("one", 0, 1, 2)
    assert "called one 1 times, the timed one 0 times (1 more modules differ)" in str(doubt)


def test_a_large_buffer_that_the_call_writes_is_no_longer_known_and_the_count_says_so():
    class InALargeBuffer(Stateful):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.zeros(100))

        def is_first(self):
            self.steps += 1
            return bool(self.steps[0].item() == 1)

    profile = shot(InALargeBuffer())

    assert said(profile, NoTwin)
    (doubt,) = said(profile, OtherPath)
    assert (doubt.module, doubt.timed, doubt.counted) == ("two", 1, 0)


def test_counting_is_on_no_clock_of_a_profiler_around_it(monkeypatch):
    time = FakeClock()
    monkeypatch.setattr(clock, "perf_counter", time.read)

    class Takes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer()

        def forward(self, x):
            time.pass_by(1.0)
            return self.layer(x)

    model = nn.Sequential(Takes(), Takes())
    inner, outer = OneShot(model[0]), OneShot(model)
    outer.start()
    inner.start()
    model(X)
    inner.stop()
    outer.stop()

    assert time.seconds == 2.0 + 1.0 + 2.0  # the model, the twin of its first part, its own twin
    assert (inner.profile.latency, outer.profile.latency) == (1.0, 2.0)
