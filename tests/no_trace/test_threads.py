"""Other threads: what they run is not ours to count, and what they count is theirs."""

import threading

import pytest
import torch
from torch import nn

import flopsight
from flopsight.capture.time.module_marks import Timer
from flopsight.capture.twin import attention_kernels as attention
from flopsight.capture.twin.attention_kernels import attention_as_on
from flopsight.results.caveats import OtherThreads

X = torch.ones(4, 8)


class Meets(nn.Linear):
    """A linear that waits for the other thread in the middle of its forward."""

    def __init__(self, barrier, out):
        super().__init__(8, out, bias=False)
        self.barrier = [barrier]

    def forward(self, x):
        self.barrier[0].wait(10)
        output = super().forward(x)
        self.barrier[0].wait(10)
        return output


def together(*tasks):
    """Run tasks on a thread each; whatever one of them raises, raise."""
    problems = []

    def guarded(task):
        try:
            task()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def test_two_threads_count_two_models_at_once():
    found = {}

    def count(name, model):
        found[name] = flopsight.count(nn.Sequential(model), (X,))

    for _ in range(5):
        barrier = threading.Barrier(2)
        together(lambda: count("narrow", Meets(barrier, 2)), lambda: count("wide", Meets(barrier, 32)))

        assert found["narrow"].macs == found["narrow"]["0"].macs == 4 * 8 * 2
        assert found["wide"].macs == found["wide"]["0"].macs == 4 * 8 * 32
        assert found["narrow"].root.calls == found["wide"].root.calls == 1


def test_two_threads_may_stop_counting_in_any_order():
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    macs = {}

    def first():
        with flopsight.recording() as recording:
            first_in.set()
            second_in.wait(10)
            nn.Linear(8, 2, bias=False)(X)
        macs["first"] = recording.profile.macs
        first_out.set()

    def second():
        first_in.wait(10)
        with flopsight.recording() as recording:
            second_in.set()
            first_out.wait(10)
            nn.Linear(8, 4, bias=False)(X)
        macs["second"] = recording.profile.macs

    together(first, second)

    assert macs == {"first": 4 * 8 * 2, "second": 4 * 8 * 4}  # the autouse fixture compares the process
    assert torch._dynamo.eval_frame._stance.stance == "default"


def test_a_profiler_in_a_loop_ignores_another_model_on_another_thread():
    barrier = threading.Barrier(2)
    mine, theirs = Meets(barrier, 2), Meets(barrier, 32)
    mine.register_forward_hook(lambda *_: None)  # no twin: both forwards run at the same time
    profiler = flopsight.FlopsProfiler(mine)
    profiler.start_profile()

    def run_mine():
        profiler.start_profile()
        mine(X)
        profiler.stop_profile()

    together(run_mine, lambda: theirs(X))

    assert profiler.get_total_macs() == 4 * 8 * 2
    assert profiler.profile.root.calls == 1


def test_a_profiler_ignores_its_own_model_on_another_thread():
    model = nn.Linear(8, 2, bias=False)
    profiler = flopsight.FlopsProfiler(model)
    profiler.start_profile()
    model(X)

    together(lambda: model(X))

    profiler.stop_profile()
    assert profiler.get_total_macs() == 4 * 8 * 2


def test_two_threads_profile_two_models_in_their_loops():
    macs = {}

    def loop(out):
        model = nn.Sequential(nn.Linear(8, out, bias=False), nn.ReLU())
        profiler = flopsight.FlopsProfiler(model)
        for step in range(3):
            if step == 1:
                profiler.start_profile()
            model(X)
            if step == 1:
                profiler.stop_profile()
        macs[out] = profiler.get_total_macs()

    for _ in range(5):
        together(lambda: loop(2), lambda: loop(32))

        assert macs == {2: 4 * 8 * 2, 32: 4 * 8 * 32}


class Attends(nn.Module):
    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x)


@pytest.mark.filterwarnings("error")
def test_attention_on_meta_is_that_of_the_thread_which_counts_it():
    found = []
    with attention_as_on("cuda"):
        together(lambda: found.append(flopsight.count(Attends(), (torch.ones(1, 2, 4, 8),), on="meta")))

    (counted,) = found
    assert "aten._scaled_dot_product_flash_attention_for_cpu" in counted.coverage.counted
    assert counted.macs == 2 * (2 * 4 * 4 * 8)


def test_who_begins_to_count_on_another_thread_does_not_change_what_ours_stands_for():
    barrier, seen = threading.Barrier(2), []

    def theirs():
        barrier.wait(10)  # ours has begun
        with attention_as_on("cuda"):
            barrier.wait(10)
            barrier.wait(10)

    def ours():
        with attention_as_on("cpu"):
            barrier.wait(10)
            barrier.wait(10)  # theirs has begun
            counted = flopsight.count(Attends(), (torch.ones(1, 2, 4, 8, device="meta"),))
            seen.append(attention._target())
            barrier.wait(10)
        assert counted.macs == 2 * (2 * 4 * 4 * 8)

    together(ours, theirs)

    assert seen == ["cpu"]


def test_a_backward_begun_on_another_thread_is_not_in_the_profile():
    theirs = nn.Linear(8, 8)

    with flopsight.recording() as recording:
        nn.Linear(8, 2, bias=False)(X)
        together(lambda: theirs(X).sum().backward())

    assert recording.profile.backward.flops == 0
    assert recording.profile.macs == 4 * 8 * 2


def test_a_watcher_that_comes_on_another_thread_does_not_take_over_a_timer():
    hands = [0.0]

    class Takes(nn.Linear):
        def forward(self, x):
            hands[0] += 1.0
            return super().forward(x)

    shared = Takes(8, 8)
    model = nn.ModuleDict({"a": nn.Sequential(shared), "b": nn.Sequential(shared)})

    class Calls(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x):
            x = self.parts["a"](x)
            together(lambda: flopsight.count(nn.Linear(8, 2), (X,)))
            return self.parts["b"](x)

    calls = Calls()
    timer = Timer(calls, lambda: hands[0])

    with timer.running():
        calls(X)

    assert timer.sums() == {"": 2.0, "parts.a": 1.0, "parts.a.0": 1.0, "parts.b": 1.0, "parts.b.0": 1.0}


class Parallel(nn.Module):
    """Calls its layers on threads of its own, and one of them also on the thread that it is called on."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        together(*(lambda layer=layer: layer(x) for layer in self.layers))
        return self.layers[0](x)


@pytest.mark.parametrize("on", ["real", "meta"])
def test_modules_that_a_model_calls_on_threads_of_its_own_are_named(on):
    profile = flopsight.count(Parallel(), (X,), on=on)

    (doubt,) = profile.caveats
    assert isinstance(doubt, OtherThreads)
    assert doubt.modules == ("layers.1", "layers.2")
    assert profile.macs == 4 * 8 * 8


def test_a_model_that_another_thread_runs_meanwhile_is_none_of_ours():
    model = nn.Sequential(Meets(threading.Barrier(2), 8))
    doubts = []

    together(lambda: model(X), lambda: doubts.extend(flopsight.count(model, (X,)).caveats))

    assert not doubts


def test_a_model_that_only_another_thread_calls_is_named_and_not_just_zero():
    model = nn.Sequential(nn.Linear(8, 2))

    with flopsight.recording(model) as recorded:
        together(lambda: model(X))

    (doubt,) = recorded.profile.caveats
    assert str(doubt).startswith("Not counted: the model ran on other threads")


def test_a_monitored_loop_keeps_the_steps_that_end_while_another_thread_counts():
    inside, over, seen = threading.Event(), threading.Event(), []

    class Waits(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 2, bias=False)

        def forward(self, x):
            inside.set()
            over.wait(10)
            return self.linear(x)

    def train():
        model = nn.Linear(8, 2, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with flopsight.monitor(model, optimizer, every=1, to=seen.append):
            counting.start()
            inside.wait(10)
            for _ in range(3):
                model(X).sum().backward()
                optimizer.step()
            over.set()

    counting = threading.Thread(target=lambda: flopsight.count(Waits(), (X,)))
    together(train)
    counting.join()

    assert [record["flopsight/model_flops"] for record in seen] == [2 * 4 * 8 * 2 + 2 * 4 * 8 * 2] * 3
