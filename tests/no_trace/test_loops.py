"""Profilers inside a user's loop: what the loop computes is what it computes without them."""

import copy
from collections import OrderedDict

import pytest
import torch
from no_trace.faces import FACES
from torch import nn
from toys import BrokenStep, Net, Raises, RaisesInBackward, Trouble

import flopsight
from flopsight.capture.model.model_run import ModelRun
from flopsight.capture.time.clock import Clock
from flopsight.capture.time.latency import measure_latency

X = torch.ones(4, 8)


def loop(model, face=None):
    """Two training steps with Adam, the first one profiled; everything that came of them."""
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters())
    outputs = []
    for step in range(2):
        output = FACES[face](model, X) if face and step == 0 else model(X)
        optimizer.zero_grad()
        output.square().sum().backward()
        optimizer.step()
        outputs.append(output.detach())
    return outputs, model.state_dict(), [p.grad for p in model.parameters()], torch.get_rng_state()


def hooked(model):
    """The same model with a hook, which makes us count while it runs."""
    model.up.register_forward_hook(lambda *_: None)
    return model


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return len(a) == len(b) and all(map(same, a, b))


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("prepare", [lambda model: model, hooked], ids=["on a twin", "live"])
def test_a_profiled_loop_computes_what_it_computes_without_us(face, prepare):
    model = Net()
    alone = loop(prepare(copy.deepcopy(model)))

    profiled = loop(prepare(copy.deepcopy(model)), face)

    assert same(profiled, alone)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("prepare", [lambda model: model, hooked], ids=["on a twin", "live"])
def test_a_profiled_forward_of_a_model_that_changes_nothing_changes_nothing(no_trace, face, prepare):
    model = nn.Sequential(OrderedDict(up=nn.Linear(8, 8), act=nn.ReLU(), down=nn.Linear(8, 2)))
    model = prepare(model)

    with no_trace(model):
        FACES[face](model, X)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("problem", [Trouble, KeyboardInterrupt])
@pytest.mark.parametrize("prepare", [lambda model: model, hooked], ids=["on a twin", "live"])
def test_a_model_that_raises_in_a_loop_takes_everything_of_ours_with_it(face, problem, prepare):
    model = prepare(Raises(problem()))

    with pytest.raises(problem) as raised:
        FACES[face](model, X)

    assert problem is KeyboardInterrupt or raised.value is model.problem


@pytest.mark.parametrize("kind", [flopsight.FlopsProfiler, flopsight.TIDSProfiler, flopsight.AProfiler])
def test_nothing_stays_patched_after_a_raise_though_nobody_stops_the_profiler(kind):
    plain = nn.Module.__call__
    profiler = kind(Raises())
    profiler.start_profile()

    with pytest.raises(Trouble):
        profiler.model(X)

    assert nn.Module.__call__ is plain
    assert not profiler.started


@pytest.mark.parametrize("face", FACES)
def test_trouble_in_the_user_s_backward_or_step_is_the_user_s(face):
    model = Net()

    with pytest.raises(Trouble, match="in backward"):
        FACES[face](RaisesInBackward(), X).sum().backward()
    with pytest.raises(Trouble, match="in the step"):
        FACES[face](model, X).sum().backward()
        BrokenStep(model.parameters(), lr=0.1).step()


def test_trouble_in_the_backward_or_the_step_of_a_window_ends_it():
    model = Net()

    with pytest.raises(Trouble, match="in backward"), flopsight.step_profiler(RaisesInBackward(), steps=[0]) as window:
        window.model(X).sum().backward()
    with pytest.raises(Trouble, match="in the step"), flopsight.step_profiler(model, steps=[0]):
        model(X).sum().backward()
        BrokenStep(model.parameters(), lr=0.1).step()


# -- profiling between a forward and its backward

BETWEEN = {
    "count": lambda model: flopsight.count(model, (X,)),
    "count, training": lambda model: flopsight.count(model, (X,), train=True),
    "count, training with Adam": lambda model: flopsight.count(
        model, (X,), train=True, optimizer=torch.optim.Adam(model.parameters())
    ),
    "count on meta": lambda model: flopsight.count(model, (X,), train=True, on="meta"),
    "profile": lambda model: flopsight.profile(model, (X,), warmup=1, repeats=1),
    "profile, training with Adam": lambda model: flopsight.profile(
        model, (X,), train=True, optimizer=torch.optim.Adam(model.parameters()), warmup=1, repeats=1
    ),
    "get_model_profile": lambda model: flopsight.get_model_profile(model, args=[X], print_profile=False),
}


@pytest.mark.parametrize("case", BETWEEN)
def test_a_profile_between_forward_and_backward_does_not_disturb_the_backward(case):
    model = Net()
    other = copy.deepcopy(model)

    torch.manual_seed(3)
    loss = model(X).square().sum()
    BETWEEN[case](model)
    loss.backward()
    torch.manual_seed(3)
    other(X).square().sum().backward()

    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine.grad, theirs.grad)


def test_timing_a_backward_leaves_no_mark_in_a_graph_that_the_user_holds():
    model = nn.Linear(8, 2)
    loss = model(X).sum()  # its nodes that gather gradients are those of every backward of this model
    reads = []
    clock = Clock(now=lambda: float(len(reads.append(None) or reads)))

    measure_latency(ModelRun(model, (X,), train=True), warmup=0, repeats=2, clock=clock)
    during = len(reads)
    loss.backward()

    assert during > 0
    assert len(reads) == during
