"""What bounds a count: the depth of a model, the length of a recording, work that is not the model's."""

import gc
import signal
import sys

import pytest
import torch
from torch import nn

import flopsight
from flopsight.capture.count import attribution, tape

WIDTH = 4
NEAR = 30 if sys.version_info[:2] == (3, 12) else 0
"""Levels less than run unwatched: Python 3.12 alone limits calls through C, and no program can raise that limit."""


class Nest(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, batch):
        return self.inner(batch)


def nested(levels):
    model = nn.Linear(WIDTH, WIDTH)
    for _ in range(levels):
        model = Nest(model)
    return model


def deepest():
    """The most levels that run without a watcher, to within a few."""
    levels = 100
    try:
        while True:
            nested(levels)(torch.ones(1, WIDTH))
            levels += 5
    except RecursionError:
        return levels - 5


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_model_is_counted_as_deep_as_it_runs(on):
    limit = sys.getrecursionlimit()
    levels = deepest() - NEAR

    profile = flopsight.count(nested(levels), (torch.ones(1, WIDTH),), on=on)

    assert profile.macs == WIDTH * WIDTH
    assert len(profile.nodes) == levels + 1
    assert not profile.caveats
    assert sys.getrecursionlimit() == limit


def test_a_recursion_limit_that_the_model_sets_stays():
    class Raises(nn.Module):
        def forward(self, batch):
            sys.setrecursionlimit(5000)
            return batch

    limit = sys.getrecursionlimit()
    try:
        flopsight.count(Raises(), (torch.ones(1),))

        assert sys.getrecursionlimit() == 5000
    finally:
        sys.setrecursionlimit(limit)


def test_garbage_is_collected_as_often_afterwards_as_before():
    before = gc.get_threshold()

    flopsight.count(nn.Linear(WIDTH, WIDTH), (torch.ones(1, WIDTH),))

    assert gc.get_threshold() == before


def test_a_long_recording_keeps_few_notes_and_loses_no_work(monkeypatch):
    monkeypatch.setattr(attribution, "MOST_MARKS", 64)
    monkeypatch.setattr(tape, "COMPACT_AT", 64)
    steps, model = 200, nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    kept = []

    with flopsight.recording(model) as recording:
        for _ in range(steps):
            model(torch.ones(2, WIDTH)).sum().backward()
            kept.append(len(recording._counter.attribution._positions[attribution.threading.get_ident()].numbers))

    assert max(kept) <= 64
    assert recording.profile["0"].total.backward.macs == steps * 2 * WIDTH * WIDTH, "the gradient of its weight"
    assert recording.profile["2"].total.backward.macs == steps * 2 * 2 * WIDTH, "of its weight and of its input"


class Interrupted(nn.Module):
    """A signal arrives in the middle of its forward."""

    def __init__(self, before=lambda: None):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, bias=False)
        self.before = before

    def forward(self, batch):
        self.before()
        signal.raise_signal(signal.SIGUSR1)
        return self.layer(batch)


@pytest.fixture
def handled():
    """A handler that multiplies matrices; how often it ran."""
    seen, other = [], nn.Linear(64, 64)

    def handle(number, frame):
        seen.append(number)
        other(torch.ones(64, 64)) @ torch.ones(64, 64)

    before = signal.getsignal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, handle)
    yield handle, seen
    signal.signal(signal.SIGUSR1, before)


def test_what_a_signal_handler_computes_is_not_the_models(handled):
    handle, seen = handled

    profile = flopsight.count(Interrupted(), (torch.ones(1, WIDTH),))

    assert seen == [signal.SIGUSR1]
    assert profile.macs == WIDTH * WIDTH
    assert signal.getsignal(signal.SIGUSR1) is handle


def test_nor_what_a_handler_computes_that_the_model_sets(handled):
    handle, seen = handled
    found = []

    def set_anew():
        found.append(signal.signal(signal.SIGUSR1, lambda number, frame: handle(number, frame)))

    profile = flopsight.count(Interrupted(set_anew), (torch.ones(1, WIDTH),))

    assert found == [handle], "the model finds the handler that was set before"
    assert seen == [signal.SIGUSR1]
    assert profile.macs == WIDTH * WIDTH
