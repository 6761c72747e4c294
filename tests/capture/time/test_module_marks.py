"""Time by a clock that the tests move: nothing here waits or measures."""

import json
import threading
from itertools import pairwise
from time import perf_counter_ns

import pytest
import torch
from fake_clock import FakeClock
from torch import nn
from torch.utils.checkpoint import checkpoint

import flopsight
from flopsight.capture.model.model_run import ModelRun, rotated
from flopsight.capture.model.sites import Site
from flopsight.capture.time.backward_marks import BackwardTimes
from flopsight.capture.time.clock import pausing, user_time
from flopsight.capture.time.latency import measure_latency
from flopsight.capture.time.module_marks import Timer
from flopsight.errors import InputError


class Takes(nn.Module):
    """A module that takes as long as it is told, then runs its children."""

    def __init__(self, time, seconds, *children):
        super().__init__()
        self.time, self.seconds, self.inner = time, seconds, nn.ModuleList(children)

    def forward(self, x):
        self.time.pass_by(self.seconds)
        for child in self.inner:
            x = child(x)
        return x + 0


def test_a_module_has_its_own_time_and_that_of_its_submodules():
    time = FakeClock()
    shared = Takes(time, 4)
    model = Takes(time, 1, Takes(time, 2, shared), shared)
    timer = Timer(model, time.clock.now)

    with timer.running():
        model(torch.ones(1))

    assert timer.sums() == {"": 11, "inner.0": 6, "inner.0.inner.0": 4, "inner.1": 4}


def test_a_module_that_calls_itself_is_not_timed_twice():
    time = FakeClock()

    class Recursive(nn.Module):
        def forward(self, times):
            time.pass_by(1)
            if times:
                self(times - 1)

    model = Recursive()
    timer = Timer(model, time.clock.now)
    with timer.running():
        model(3)

    assert timer.sums() == {"": 4}


def test_calls_of_another_thread_are_not_timed():
    time = FakeClock()
    model = Takes(time, 1)
    timer = Timer(model, time.clock.now)

    with timer.running():
        other = threading.Thread(target=model, args=(torch.ones(1),))
        other.start()
        other.join()
        model(torch.ones(1))

    assert timer.sums() == {"": 1}


def test_the_plain_runs_give_the_latency_and_one_whole_timed_run_the_rows():
    time = FakeClock()
    model = Takes(time, 1, Takes(time, 3))
    slowness = iter([0, 0, 0, 6, 0, 0] + [0] * 50)
    model.register_forward_pre_hook(lambda *_: time.pass_by(next(slowness)))

    found = measure_latency(ModelRun(model, (torch.ones(1),)), warmup=2, repeats=3, clock=time.clock)

    assert found.timing.forward.median == 4
    assert found.forward == {"": 4, "inner.0": 3}
    assert found.timing.distortion == pytest.approx(1.0, abs=1.5)


def test_warm_up_goes_on_until_two_runs_take_the_same_time():
    time = FakeClock()
    slowness = iter([0.5, 0.3, 0.2, 0.05] + [0] * 50)
    model = Takes(time, 0.1)
    calls = []

    def slow(*_):
        calls.append(1)
        time.pass_by(next(slowness))

    model.register_forward_pre_hook(slow)

    found = measure_latency(ModelRun(model, (torch.ones(1),)), warmup=1, repeats=2, clock=time.clock)

    # 0.6, 0.4, 0.3, 0.15, 0.1, 0.1: the sixth equals the fifth; then two plain and two timed runs.
    assert len(calls) == 6 + 4
    assert found.timing.forward.samples == pytest.approx((0.1, 0.1))


def test_warm_up_in_training_takes_as_long_as_in_inference():
    time, calls = FakeClock(), []
    model = nn.Sequential(Takes(time, 2), nn.Linear(1, 1))

    def slow(*_):
        calls.append(1)
        time.pass_by(len(calls) % 2)

    model.register_forward_pre_hook(slow)
    run = ModelRun(model, (torch.ones(1),), train=True)

    measure_latency(run, warmup=1, repeats=1, clock=time.clock)

    assert len(calls) == 3 + 2  # steps of 3 and 2 and 3 seconds, more than 5; then a plain and a timed one


def test_short_runs_are_made_in_blocks_whose_first_is_not_looked_at():
    """Whenever marks come or go, the next run takes longer, as every class of modules looks its methods up anew."""
    time, patched, calls = FakeClock(), [None], []

    def slow(*_):
        calls.append(nn.Module.__call__ is plain)
        if nn.Module.__call__ is not patched[0]:
            time.pass_by(0.01)
        patched[0] = nn.Module.__call__

    model, plain = Takes(time, 0.02), nn.Module.__call__
    model.register_forward_pre_hook(slow)

    found = measure_latency(ModelRun(model, (torch.ones(1),)), warmup=2, repeats=7, clock=time.clock)

    assert found.timing.forward.samples == pytest.approx((0.02,) * 7)
    assert found.timing.distortion == pytest.approx(1.0)
    warm_up, blocks = calls[:3], calls[3:]
    assert all(warm_up)  # the first is slower, the two after it are alike
    assert blocks == [True] * 6 + [False] * 6 + [True] * 3 + [False] * 3


def test_a_slow_pass_with_marks_is_reported_as_distorted():
    time = FakeClock()
    model = Takes(time, 1)
    turn = iter(range(100))
    model.register_forward_pre_hook(lambda *_: time.pass_by(next(turn) % 2))

    found = measure_latency(ModelRun(model, (torch.ones(1),)), warmup=0, repeats=4, clock=time.clock)

    assert found.timing.distortion == 2
    assert any("2.00x" in str(caveat) for caveat in found.caveats)


class Slowly(torch.autograd.Function):
    """Something whose backward takes as long as it is told."""

    @staticmethod
    def forward(ctx, x, time, seconds):
        ctx.time, ctx.seconds = time, seconds
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        assert ctx.saved_tensors  # a checkpoint runs its forward again for it
        ctx.time.pass_by(ctx.seconds)
        return gradient * 2, None, None


class Both(nn.Module):
    """A module whose forward and backward take as long as they are told."""

    def __init__(self, time, forward, backward):
        super().__init__()
        self.time, self.forward_seconds, self.backward_seconds = time, forward, backward

    def forward(self, x):
        self.time.pass_by(self.forward_seconds)
        return Slowly.apply(x, self.time, self.backward_seconds)


class Powers(nn.Module):
    def forward(self, x):
        return x**3


class Backs(nn.Module):
    def __init__(self, time, seconds):
        super().__init__()
        self.time, self.seconds = time, seconds

    def forward(self, x):
        return Slowly.apply(x, self.time, self.seconds)


def test_the_time_of_a_backward_goes_to_the_modules_that_made_its_nodes():
    time = FakeClock()
    model = nn.Sequential(Backs(time, 3), nn.Sequential(Backs(time, 5), Backs(time, 7)))
    timer = Timer(model, time.clock.now)
    nodes = BackwardTimes(timer, time.clock.now)
    with timer.running(sequences=True), nodes.running():
        model(torch.ones(2, requires_grad=True)).sum().backward()

    assert {path: seconds for path, seconds in nodes.by_row().items() if seconds} == {"0": 3, "1.0": 5, "1.1": 7}


def test_gradients_that_are_asked_for_by_name_are_timed_like_a_backward():
    time = FakeClock()
    model = nn.Sequential(Backs(time, 3), Backs(time, 5))
    timer = Timer(model, time.clock.now)
    nodes = BackwardTimes(timer, time.clock.now)
    x = torch.ones(2, requires_grad=True)
    with timer.running(sequences=True), nodes.running():
        torch.autograd.grad(outputs=model(x).sum(), inputs=x)
        torch.autograd.backward({model(x).sum(): None}.keys())  # torch takes whatever it can go through once

    assert {path: seconds for path, seconds in nodes.by_row().items() if seconds} == {"0": 2 * 3, "1": 2 * 5}


def test_what_passes_between_two_nodes_goes_to_the_one_that_ended():
    a, b = Site("a"), Site("b")
    nodes = BackwardTimes(Timer(nn.Identity(), float), float)
    nodes.log += [(a, True, 1.0), (a, False, 3.0), (b, True, 4.5), (b, False, 5.0), (None, False, 5.25)]
    nodes.log += [(a, True, 9.0), (a, False, 9.5), (None, False, 9.5)]  # another backward, some time after

    assert nodes.by_row() == {"a": 2.0 + 1.5 + 0.5, "b": 0.5 + 0.25}


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_runs_again_is_timed_in_the_module_that_runs(reentrant):
    time = FakeClock()

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Both(time, 10, 3), Both(time, 20, 5)

        def forward(self, x):
            return checkpoint(lambda y: self.b(self.a(y)), x, use_reentrant=reentrant)

    model = Checkpointed()
    timer = Timer(model, time.clock.now)
    nodes = BackwardTimes(timer, time.clock.now)
    with timer.running(sequences=True):
        loss = model(torch.ones(2, requires_grad=True)).sum()
        with nodes.running():
            loss.backward()

    assert {path: seconds for path, seconds in nodes.by_row().items() if seconds} == {"a": 10 + 3, "b": 20 + 5}


def test_a_backward_of_a_backward_goes_to_the_modules_of_the_first():
    time = FakeClock()
    model = nn.Sequential(Backs(time, 3), Powers())
    timer = Timer(model, time.clock.now)
    nodes = BackwardTimes(timer, time.clock.now)
    x = torch.ones(2, requires_grad=True)
    with timer.running(sequences=True), nodes.running():
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        first = len(nodes.log)
        gradient.sum().backward()

    second = {row.path for row, _, _ in nodes.log[first:] if row is not None}
    assert second == {"<outside>", "0", "1"}  # outside is the sum


def test_a_backward_on_another_thread_is_not_timed():
    time = FakeClock()
    model = nn.Sequential(Backs(time, 3))
    timer = Timer(model, time.clock.now)
    nodes = BackwardTimes(timer, time.clock.now)
    with timer.running(sequences=True), nodes.running():
        other = threading.Thread(target=lambda: model(torch.ones(2, requires_grad=True)).sum().backward())
        other.start()
        other.join()

    assert nodes.log == []


def slowed(time, *slowness):
    """A module of one second whose calls are slowed in turn; plain and timed runs alternate."""
    model, turn = Takes(time, 1), iter(slowness)
    model.register_forward_pre_hook(lambda *_: time.pass_by(next(turn)))
    return ModelRun(model, (torch.ones(1),))


def test_a_change_of_pace_between_the_halves_is_told_from_a_busy_machine():
    time = FakeClock()
    changed = measure_latency(slowed(time, *[0] * 8, *[0.25] * 8), warmup=0, repeats=8, clock=time.clock)
    busy = measure_latency(slowed(time, *[0, 0, 0.25, 0.25] * 4), warmup=0, repeats=8, clock=time.clock)

    assert [(type(c).__name__, getattr(c, "ratio", None)) for c in changed.caveats] == [("PaceChanged", 1.25)]
    assert [type(c).__name__ for c in busy.caveats] == ["BusyMachine"]


def test_after_the_time_budget_no_repeat_begins():
    time = FakeClock()
    found = measure_latency(slowed(time, *[0] * 100), warmup=0, repeats=50, clock=time.clock, budget=10)

    assert len(found.timing.forward.samples) == 6  # a plain and a timed run take two seconds: after 12 it is enough


def test_at_least_two_repeats_are_made_whatever_they_cost():
    time = FakeClock()
    found = measure_latency(slowed(time, *[0] * 100), warmup=0, repeats=50, clock=time.clock, budget=0.5)

    assert len(found.timing.forward.samples) == 2


def test_somebody_may_hear_what_is_being_done():
    heard = []
    flopsight.profile(nn.Linear(2, 2), (torch.ones(1, 2),), warmup=1, repeats=2, progress=heard.append)

    assert heard == ["counting", "warming up", "timing, run 1 of 2", "timing, run 2 of 2", "tracing ops"]


@pytest.mark.parametrize("budget", [0, -1, "long", True, float("nan")])
def test_a_time_budget_is_a_number_of_seconds(budget):
    with pytest.raises(InputError, match="time_budget must be a number of seconds above 0"):
        flopsight.profile(nn.Linear(2, 2), (torch.ones(1, 2),), time_budget=budget)


def test_a_profiler_of_torchs_that_is_running_is_left_alone_and_no_timeline_is_taken():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        torch.ones(2) + 1
        profile = flopsight.profile(nn.Linear(2, 2), (torch.ones(1, 2),), repeats=1, timeline=True)
        torch.ones(2) * 2

    assert profile.timeline == ()
    assert "No timeline was taken: a profiler is already running in this process." in map(str, profile.caveats)
    assert {"aten::add", "aten::mul"} <= {event.name for event in theirs.events()}


def test_a_profiler_that_is_still_warming_up_is_left_alone_too():
    stages = torch.profiler.schedule(wait=1, warmup=1, active=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=stages) as theirs:
        theirs.step()
        profile = flopsight.profile(nn.Linear(2, 2), (torch.ones(1, 2),), repeats=1, timeline=True)
        theirs.step()
        torch.ones(2).cos()

    assert profile.timeline == ()
    assert "aten::cos" in {event.name for event in theirs.events()}


def test_a_profiler_on_another_thread_is_left_alone_too():
    found = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        one = threading.Thread(
            target=lambda: found.append(
                flopsight.profile(nn.Linear(2, 2), (torch.ones(1, 2),), repeats=1, timeline=True)
            )
        )
        one.start()
        one.join()
        torch.ones(2).cos()

    assert found[0].timeline == ()
    assert "aten::cos" in {event.name for event in theirs.events()}


def test_the_parts_of_a_step_add_up_and_the_loss_is_timed_with_its_backward():
    time = FakeClock()

    def loss(output):
        time.pass_by(100)
        return output.sum()

    run = ModelRun(Backs(time, 3), (torch.ones(2, requires_grad=True),), train=True, loss=loss)
    found = measure_latency(run, warmup=0, repeats=2, clock=time.clock).timing

    assert (found.forward.median, found.backward.median, found.step.median) == (0, 103, 103)


def test_what_we_do_ourselves_is_on_no_clock():
    before, real = user_time(), perf_counter_ns()
    with pausing():
        sum(range(200_000))
    passed, really = user_time() - before, (perf_counter_ns() - real) / 1e9

    assert passed < really


def test_equal_inputs_in_other_memory_are_taken_in_turn():
    x, ids = torch.randn(2, 3, requires_grad=True), torch.arange(4)
    runs = rotated(ModelRun(nn.Identity(), (x, [ids]), {"mask": None}))

    assert len({run.args[0].data_ptr() for run in runs}) == len(runs) == 3
    assert all(torch.equal(run.args[0], x) and run.args[0].requires_grad for run in runs)
    assert all(torch.equal(run.args[1][0], ids) for run in runs)


def test_backward_time_by_module_adds_up_to_the_roots():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(inplace=True), nn.Linear(64, 64))
    profile = flopsight.profile(model, (torch.randn(32, 64),), train=True, repeats=2)

    rows = [profile[name].backward_latency for name in ("0", "1", "2")]
    assert all(seconds > 0 for seconds in rows)
    outside = profile.outside.backward_latency or 0.0
    assert sum(rows) + outside == pytest.approx(profile.root.backward_latency)


def test_a_timeline_holds_every_module_around_its_ops(tmp_path):
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    profile = flopsight.profile(model, (torch.randn(4, 8),), repeats=1, warmup=0, timeline=True)

    modules = {span.path: span for span in profile.timeline if span.kind == "module"}
    assert set(modules) == {"", "0", "1"}
    (addmm,) = [span for span in profile.timeline if span.name == "aten::addmm"]
    assert addmm.path == "0"
    assert modules["0"].begin <= addmm.begin <= addmm.end <= modules["0"].end
    assert (4, 8) in addmm.shapes
    assert json.loads(profile.render("trace"))["traceEvents"]
    assert flopsight.load(profile.save(tmp_path / "p.json")).timeline == profile.timeline


def test_a_traced_step_has_its_phases_in_order_and_its_spans_nest_as_perfetto_asks():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    profile = flopsight.profile(
        model, (torch.randn(4, 8),), train=True, optimizer="sgd", repeats=1, warmup=0, timeline=True
    )

    events = [event for event in json.loads(profile.render("trace"))["traceEvents"] if event["ph"] == "X"]
    phases = [event for event in events if event["cat"] == "phase"]
    assert [event["name"] for event in phases] == ["forward", "backward", "optimizer"]
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(phases))
    open_ends = {}
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        around = open_ends.setdefault((event["pid"], event["tid"]), [])
        while around and around[-1] <= event["ts"] + 1e-3:
            around.pop()
        end = event["ts"] + event["dur"]
        assert not around or end <= around[-1] + 1e-3, f"{event['name']} ends after what it is in"
        around.append(end)


def test_a_forward_that_raises_later_leaves_the_counts_and_nothing_else():
    class Third(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls = nn.Linear(4, 4), 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 3:
                raise ValueError("the third")
            return self.layer(x)

    with pytest.raises(ValueError, match="the third") as caught:
        flopsight.profile(Third(), (torch.ones(2, 4),))

    assert caught.value.flopsight_profile.macs == 2 * 4 * 4
