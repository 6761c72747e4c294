"""Steps far slower than the others, with what was slow; times are given, so nothing depends on the machine."""

from math import nan

import pytest
from loop.monitor.training import mlp, one_step, rows, sgd
from torch import nn

import flopsight
from flopsight.loop.monitor import monitoring, slow_steps
from flopsight.loop.monitor.counted_work import Work
from flopsight.loop.monitor.process_memory import MemoryUse
from flopsight.loop.monitor.slow_steps import SlowSteps
from flopsight.loop.monitor.step import Step
from flopsight.loop.monitor.step_times import StepTimes


def step(forward=0.3, backward=0.5, flops=100.0):
    made = Step(0.0, 0.0)
    made.time.forward, made.time.backward = forward, backward
    made.sums.set(Work(flops))
    return made


def after_usual_steps(slow, seconds, wait=0.1, retries=lambda: 0):
    found = SlowSteps(queues=False, retries=retries)
    for number in range(12):
        assert not found.add([(number, step(), 1.0, 0.1)])
    assert bool(found.add([(12, slow, seconds, wait)])) == bool(found.found)
    return found.found


@pytest.mark.parametrize(
    ("slow", "seconds", "wait", "why"),
    [
        (step(), 3.0, 2.1, "waiting for data +2.00 s"),
        (step(backward=4.5), 5.0, 0.1, "backward +4.00 s"),
        (step(), 4.0, 0.1, "the optimizer and the rest of the loop +3.00 s"),
        (
            step(forward=1.3, backward=2.5, flops=400.0),
            4.0,
            0.1,
            "4.0 times the usual FLOPs (a larger batch or longer sequences)",
        ),
        (
            step(backward=8.5, flops=200.0),
            9.0,
            0.1,
            "2.0 times the usual FLOPs (a larger batch or longer sequences), backward +8.00 s",
        ),
    ],
)
def test_the_part_that_grew_is_named(slow, seconds, wait, why):
    (found,) = after_usual_steps(slow, seconds, wait)

    assert why in found.why
    assert (found.step, found.seconds, found.usual) == (12, seconds, 1.0)


def test_a_step_less_than_twice_as_long_is_not_slow():
    assert not after_usual_steps(step(), 1.9)


def test_retries_of_the_allocator_since_the_last_interval_are_named_first():
    reads = iter((3, 5))

    (found,) = after_usual_steps(step(backward=4.5), 5.0, retries=lambda: next(reads))

    assert found.why == "allocator retries +2, backward +4.00 s"


def test_quantiles_of_many_steps_are_within_a_percent_and_take_no_more_memory():
    times = StepTimes()
    for number in range(20_000):
        times.add([0.001 * (1 + number % 1000 / 1000)])
    bins = len(times._bins)
    for number in range(20_000):
        times.add([0.001 * (1 + number % 1000 / 1000)])

    assert times.quantiles(0.25, 0.5) == pytest.approx([0.00125, 0.0015], rel=0.01)
    assert len(times._bins) == bins < 100


def test_on_slow_gets_the_profile_of_the_next_step_like_it(monkeypatch):
    monkeypatch.setattr(slow_steps, "FAR", 0.0)  # every step is slow
    monkeypatch.setattr(slow_steps, "LEAST_EXCESS", -1.0)  # on a quiet machine too
    taken, model = [], mlp()
    optimizer = sgd(model)
    with flopsight.monitor(model, optimizer, every=1, on_slow=taken.append):
        for _ in range(30):
            one_step(model, optimizer, rows(4))

    assert 1 <= len(taken) <= 3
    assert taken[0].forward.macs == 4 * 8 * 16 + 4 * 16 * 2
    assert taken[0].trained


def test_a_larger_batch_is_named_first_also_if_its_flops_are_not_known():
    def of(rows):
        made = step(forward=2.0, backward=6.5, flops=nan)
        made.sums.samples = rows
        return made

    found = SlowSteps(queues=False)
    for number in range(12):
        found.add([(number, of(4), 1.0, 0.1)])
    found.add([(12, of(256), 9.0, 0.1)])

    (slow,) = found.found
    assert slow.why.startswith("64.0 times the usual samples (a larger batch or longer sequences)")


def test_a_larger_batch_is_named_in_a_loop(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("flopsight.capture.time.clock.perf_counter", lambda: clock[0])

    class Slow(nn.Linear):
        """Takes half a second for each row in the forward."""

        def forward(self, x):
            clock[0] += 0.5 * len(x)
            return super().forward(x)

    model = Slow(8, 2)
    with flopsight.monitor(model, every=5) as live:
        for number in range(32):
            one_step(model, sgd(model), rows(64 if number == 30 else 1))
            clock[0] += 0.1 if number < 30 else 10.0
            live.step()

    first, second = live.summary().slow
    assert (first.step, second.step) == (30, 31)
    assert first.why == "64.0 times the usual FLOPs (a larger batch or longer sequences)"
    assert second.why == "the optimizer and the rest of the loop +9.90 s"


@pytest.mark.parametrize("by_hand", [True, False])
def test_the_peak_of_a_step_is_in_the_interval_of_that_step(monkeypatch, by_hand):
    most = [100]
    monkeypatch.setattr(monitoring, "memory_use", lambda device: MemoryUse(peak=most[0]))
    seen, model = [], mlp()
    optimizer = sgd(model)
    with flopsight.monitor(model, optimizer, every=5, to=seen.append) as live:
        for number in range(33):
            most[0] += 1000 * (number == 30)
            one_step(model, optimizer, rows(4))
            if by_hand:
                live.step()

    assert [record["flopsight/peak_bytes"] for record in seen] == [100] * 6 + [1100]


def test_the_peak_of_a_step_of_two_optimizers_is_in_its_interval(monkeypatch):
    most = [0]
    monkeypatch.setattr(monitoring, "memory_use", lambda device: MemoryUse(peak=most[0]))
    seen, models = [], (mlp(), mlp())
    optimizers = [sgd(model) for model in models]
    with flopsight.monitor(models, every=1, to=seen.append):
        for number in range(3):
            for at, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
                most[0] = 10 * number + at
                one_step(model, optimizer, rows(4))

    assert [record["flopsight/peak_bytes"] for record in seen] == [1, 11, 21]
