"""A compiled model compiles as it would without us: once, whole, and whenever its time comes."""

import subprocess
import sys

import pytest
import torch
from toys import MACS, Net, graph_count

import flopsight
from flopsight.results.caveats import CompiledWhole, Distorted

X = torch.ones(4, 8)


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Plain(Net):
    """The same layers without the Python randomness that would break the graph."""

    def forward(self, x):
        return self.down(self.drop(self.norm(self.up(x))))


def wrapped(graphs):
    return torch.compile(Plain(), backend=graph_count(graphs))


def in_place(graphs):
    model = Plain()
    model.compile(backend=graph_count(graphs))
    return model


def profiled_in_a_loop(model):
    profiler = flopsight.FlopsProfiler(model)
    profiler.start_profile()
    model(X)
    profiler.stop_profile()
    return profiler.profile


def window(model):
    with flopsight.step_profiler(model, steps=range(3)) as steps:
        for _ in range(3):
            model(X).sum().backward()
            steps.step()
    return steps.profile


USES = {
    "count": lambda model: flopsight.count(model, (X,)),
    "count on meta": lambda model: flopsight.count(model, (X,), on="meta"),
    "profile": lambda model: flopsight.profile(model, (X,), warmup=1, repeats=2),
    "FlopsProfiler": profiled_in_a_loop,
    "step_profiler": window,
    "get_model_profile": lambda model: flopsight.get_model_profile(model, args=[X], print_profile=False, warm_up=1),
}


@pytest.mark.parametrize("make", [wrapped, in_place])
@pytest.mark.parametrize("use", ["count", "count on meta", "profile", "FlopsProfiler", "step_profiler"])
def test_a_model_that_was_never_run_compiles_once_and_whole(make, use):
    graphs = []
    model = make(graphs)

    profile = USES[use](model)
    model(X)
    model(X)

    assert len(graphs) == 1
    assert profile.macs == MACS
    assert [node.path for node in profile.walk()][:5] == ["", "up", "norm", "drop", "down"]


@pytest.mark.parametrize("make", [wrapped, in_place])
@pytest.mark.parametrize("use", USES)
def test_a_warm_model_is_not_compiled_again(make, use):
    graphs = []
    model = make(graphs)
    model(X)
    model.eval()
    with torch.no_grad():
        model(X)
    model.train()
    compiled = len(graphs)

    USES[use](model)
    model(X)

    assert len(graphs) == compiled


@pytest.mark.parametrize("use", ["profile", "FlopsProfiler", "step_profiler"])
def test_the_profile_of_a_compiled_model_says_that_it_is_timed_whole(use):
    profile = USES[use](wrapped([]))

    assert CompiledWhole() in profile.caveats
    assert not any(isinstance(caveat, Distorted) for caveat in profile.caveats)
    assert profile.root.latency == profile.latency > 0
    assert profile["up"].latency is None
    assert profile.outside is None or profile.outside.latency is None


@pytest.mark.parametrize("in_a_wrapper", [True, False])
def test_a_one_shot_profiler_sees_a_model_that_is_compiled_after_it_was_handed_over(in_a_wrapper):
    graphs = []
    model = Plain()
    prof = flopsight.FlopsProfiler(model)

    prof.start_profile()
    if in_a_wrapper:
        compiled = torch.compile(model, backend=graph_count(graphs))
    else:
        model.compile(backend=graph_count(graphs))
        compiled = model
    compiled(X)
    prof.stop_profile()
    compiled(X)

    assert len(graphs) == 1
    assert prof.get_total_macs() == MACS
    assert prof.profile.caveats == (CompiledWhole(),)


def test_a_compiled_model_that_has_to_be_counted_live_still_compiles_afterwards():
    graphs = []
    model = Plain()
    model.up.register_forward_hook(lambda *_: None)
    compiled = torch.compile(model, backend=graph_count(graphs))

    profile = profiled_in_a_loop(compiled)
    during = len(graphs)
    compiled(X)

    assert (during, len(graphs)) == (0, 1)
    assert profile.macs == MACS
    assert profile.root.calls == 1


def test_a_layer_compiled_alone_still_compiles_afterwards():
    graphs = []
    model = Plain()
    model.up = torch.compile(model.up, backend=graph_count(graphs))

    profile = flopsight.count(model, (X,))
    model(X)

    assert len(graphs) == 1
    assert profile.macs == MACS


def test_watchers_that_come_and_go_in_a_window_have_nothing_compiled_anew():
    graphs, after_each_step = [], []
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), Plain())
    model[1].compile(backend=graph_count(graphs))
    with flopsight.step_profiler(model, steps=range(2, 7)) as steps:
        for rows in (4, 6, 8, 5, 7, 9, 10):  # the second shape makes the compiler take any
            model(torch.ones(rows, 8)).sum().backward()
            after_each_step.append(len(graphs))
            steps.step()

    assert after_each_step == [1, 2, 2, 2, 2, 2, 2]


FRESH = """
import sys
import torch
import flopsight

graphs, made = [], {}

def backend(graph, _inputs):
    graphs.append(graph)
    return graph.forward

class Late(torch.nn.Module):
    def forward(self, x):
        if late and not made:
            made["f"] = torch.compile(lambda t: t.sin() @ t.T, backend=backend)
        return made["f"](x) if late else x.sin() @ x.T

late = False
plain = flopsight.count(Late(), (torch.ones(4, 8),))
print("torch._dynamo" in sys.modules)
late = True
model = Late()
profile = flopsight.count(model, (torch.ones(4, 8),))
print(profile.macs == plain.macs == 4 * 8 * 4, len(graphs))
model(torch.ones(4, 8))
print(len(graphs))
"""


def test_counting_does_not_import_the_compiler_and_holds_it_back_when_somebody_else_does():
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True)

    assert done.stdout.split("\n")[:3] == ["False", "True 0", "1"]
