"""Probes stop at their seconds, whatever the machine; the clock of these tests moves only with the work."""

import pytest
import torch
from fake_clock import FakeClock
from torch.utils.flop_counter import FlopCounterMode

from flopsight.hardware import efficiency, measured
from flopsight.hardware.detect import Found
from flopsight.hardware.measured import SHORT, THOROUGH, Pace, Probes
from flopsight.hardware.sampling import SAMPLES, Sampler
from flopsight.results.ceilings import Ceilings


class Quiet(FakeClock):
    """A sampler's clocks: both cores work for as long as the wall clock says."""

    def sampler(self, kind=Sampler, place="cpu"):
        return kind(
            torch, torch.device(place), flush=1 << 10, clock=self.read, processor_clock=lambda: 2 * self.seconds
        )


@pytest.fixture(name="clock")
def _clock():
    """The clock of a CPU with two threads, however many this machine or this worker has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield Quiet()
    torch.set_num_threads(threads)


def calls_of(clock, seconds):
    """Work that takes so long each time, and the list of its calls."""
    calls = []

    def work():
        calls.append(clock.seconds)
        clock.pass_by(seconds[len(calls) % len(seconds)])

    return work, calls


def test_no_sample_begins_that_would_end_after_the_budget(clock):
    work, calls = calls_of(clock, [0.3])

    assert clock.sampler().least(work, budget=1.0) == pytest.approx(0.3)
    assert len(calls) == 3
    assert clock.seconds <= 1.0


def test_work_that_takes_longer_than_its_budget_runs_once(clock):
    work, calls = calls_of(clock, [7.0])

    assert clock.sampler().least(work, budget=1.0) == pytest.approx(7.0)
    assert len(calls) == 1


def test_samples_that_agree_are_enough_and_others_go_on(clock):
    work, calls = calls_of(clock, [0.001])
    clock.sampler().least(work, budget=1.0)
    assert len(calls) <= SAMPLES + 3

    work, calls = calls_of(clock, [0.001, 0.002, 0.0015])
    assert clock.sampler().least(work, budget=0.2) == pytest.approx(0.001)
    assert len(calls) > 4 * SAMPLES


def test_a_size_that_would_not_fit_is_left_out(clock):
    """At 20 GFLOP/s, 1 GFLOP takes 50 ms and 8 GFLOP take 400 ms: three of them do not fit into a second."""
    made = []

    def sized(flops):
        return flops, lambda: made.append(flops) or (lambda: clock.pass_by(flops / 20e9))

    assert clock.sampler().fastest([sized(1e9), sized(8e9)], budget=1.0) == pytest.approx(20e9)
    assert made == [1e9]
    assert clock.seconds <= 1.0


def test_work_that_a_device_cannot_do_has_no_rate(clock):
    def refused():
        raise RuntimeError("no such kernel")

    assert clock.sampler().fastest([(1e9, refused), (8e9, refused)], budget=1.0) == 0


class AtTwentyGigaflops(Sampler):
    """A machine that computes at 20 GFLOP/s and needs a millisecond for any call; tensors without memory, two threads."""

    def __init__(self, torch, device, **clocks):
        super().__init__(torch, device, **clocks)
        self.cpu, self.threads = True, torch.get_num_threads()

    def _one(self, work):
        with FlopCounterMode(display=False) as counter:
            work()
        seconds = max(counter.get_total_flops() / 20e9, 1e-3)
        self.pass_by(seconds)
        return seconds, 2 * seconds


@pytest.mark.parametrize(("pace", "most"), [(SHORT, 3.0), (THOROUGH, 30.0)])
def test_a_slow_machine_takes_no_longer_and_has_its_rate(clock, monkeypatch, pace: Pace, most):
    monkeypatch.setattr(measured, "host_prices", lambda *_: {})
    sampler = clock.sampler(AtTwentyGigaflops, "meta")
    sampler.pass_by = clock.pass_by
    monkeypatch.setattr(sampler, "warm_up", lambda work, budget: clock.pass_by(budget))
    told = []

    found = Probes(torch, sampler, pace, told.append).ceilings(Found("cpu", "Slow"))

    assert clock.seconds <= most
    assert set(found.flops) == {"float32", "bfloat16", "float16", "float64"}
    assert found.flops["bfloat16"] == pytest.approx(20e9)
    assert found.short == (pace is SHORT)
    assert told[0].startswith("products in float32, second 1 of ")


def test_beside_others_one_thread_tells_what_all_could(clock):
    """Alone a thread has 100 GFLOP/s; two that wait for each other beside other processes have 1 together."""

    class Crowded(Sampler):
        def _one(self, work):
            seconds = 1e9 / (100e9 if self._single else 1e9)
            clock.pass_by(seconds)
            return seconds, seconds

    sampler = clock.sampler(Crowded)
    sampler.threads = 2
    probes = Probes(torch, sampler, SHORT, lambda _: None)
    threads = torch.get_num_threads()
    try:
        assert probes._fastest("products", [(1e9, lambda: None)]) == pytest.approx(200e9)
    finally:
        torch.set_num_threads(threads)
    assert probes._busy == pytest.approx(1 - 1 / 200)


class Loading(Sampler):
    """A device that loads a kernel in its first call; its clock is the test's."""

    def __init__(self, *words, **settings):
        super().__init__(*words, **settings)
        self.cpu, self.threads = False, 1

    def wait(self):
        """Nothing runs on its own."""

    def _one(self, work):
        begun = self.clock()
        work()
        return self.clock() - begun, self.clock() - begun


def test_loading_a_kernel_keeps_no_larger_size_from_being_tried(clock):
    """At 1 TFLOP/s from the second size on; each first call takes a second, more than the budget."""

    def sized(flops, seconds):
        calls = []

        def work():
            clock.pass_by(seconds if calls else 1.0)
            calls.append(seconds)

        return flops, lambda: work

    sizes = [sized(1e8, 1e-3), sized(1e9, 1e-3), sized(1e10, 1e-2)]

    assert clock.sampler(Loading).fastest(sizes, 0.5) == pytest.approx(1e12)


def test_loading_a_kernel_is_no_part_of_the_share_that_it_reaches(clock, monkeypatch):
    """Each kernel takes 10 ms and has a limit of 5 ms: a share of 0.5, though its first call takes a minute."""
    calls = {"matmul": 0, "attention": 0}

    def run(kind):
        clock.pass_by(0.010 if calls[kind] else 60.0)
        calls[kind] += 1

    cases = [(kind, 0.005 * 1e12, 0.0, lambda kind=kind: run(kind)) for kind in calls]
    monkeypatch.setattr(efficiency, "Cases", lambda *_, **__: cases)
    ceilings = Ceilings("Round", {"bfloat16": 1e12}, bandwidth=1e12)

    found = efficiency.efficiencies(torch, clock.sampler(Loading), ceilings, budget=1.0)

    assert found == {kind: ((0.005, pytest.approx(0.5)),) for kind in calls}
