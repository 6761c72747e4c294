"""Time that is ours and not the user's: it passes on the thread where we take it, and on no other."""

import threading

import pytest
import torch
from fake_clock import FakeClock
from torch import nn

from flopsight.capture.time import clock
from flopsight.capture.time.clock import clock_for, pausing, time_of_this_thread, user_time
from flopsight.loop.oneshot import OneShot

CPU = torch.device("cpu")


@pytest.fixture(name="time")
def _time(monkeypatch):
    """The host's clock, which goes on only when a test moves it."""
    time = FakeClock()
    monkeypatch.setattr(clock, "perf_counter", time.read)
    return time


def elsewhere(task):
    """What a task gives on a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(task()))
    thread.start()
    thread.join()
    return found[0]


def test_a_pause_does_not_pass_for_its_thread(time):
    now, begin = time_of_this_thread(), user_time()
    with pausing():
        time.pass_by(5.0)
    time.pass_by(1.0)

    assert now() - begin == user_time() - begin == 1.0


def test_a_pause_within_a_pause_is_taken_once(time):
    begin = user_time()
    with pausing():
        time.pass_by(2.0)
        with pausing():
            time.pass_by(3.0)
    time.pass_by(1.0)

    assert user_time() - begin == 1.0


def test_a_pause_passes_for_every_other_thread(time):
    paused, looked = threading.Event(), threading.Event()
    spans = []

    def other():
        now = clock_for(CPU).now
        paused.wait(10)
        begin = now()
        looked.set()
        over.wait(10)
        spans.append(now() - begin)

    over = threading.Event()
    thread = threading.Thread(target=other)
    thread.start()
    with pausing():
        time.pass_by(3.0)
        paused.set()
        looked.wait(10)
        time.pass_by(4.0)
    over.set()
    thread.join()

    assert spans == [4.0]


def test_a_thread_that_works_for_another_reads_the_other_s_clock(time):
    now = clock_for(CPU).now
    begin = now()
    with pausing():
        time.pass_by(5.0)
    time.pass_by(2.0)

    assert elsewhere(now) - begin == 2.0


def test_a_profiler_started_on_another_thread_takes_the_clock_of_that_thread(time):
    class Takes(nn.Module):
        def forward(self, x):
            time.pass_by(1.0)
            return x

    model = Takes()
    watch = OneShot(model)

    def profiled():
        watch.start()
        model(torch.ones(2))
        watch.stop()
        return watch.profile.latency

    assert profiled() == 1.0
    assert elsewhere(profiled) == 1.0
