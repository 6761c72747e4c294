"""Models that are found while they run, steps that are not like the others, and the hooks that tell of them."""

import torch
from found_models import MACS, Small
from torch import nn

import flopsight
from flopsight.capture.hooks.optimizer_steps import after_optimizer_steps, optimizer_steps
from flopsight.capture.hooks.patches import calls_of
from flopsight.script.model_finder import ModelFinder
from flopsight.script.search import Search


def test_parameters_of_a_model_found_late_are_no_activations():
    model = Small()

    with flopsight.recording() as late:
        model(torch.ones(5, 4)).sum().backward()

    assert late.profile.activation_bytes == 5 * 3 * 4  # what ReLU gave; the inputs and weights were there before


def test_two_models_of_a_class_are_told_apart():
    first, second = Small(), Small()
    with flopsight.recording() as seen:
        first(torch.ones(5, 4))
        second(torch.ones(10, 4))

    assert seen.profile["Small"].macs == MACS
    assert seen.profile["Small-2"].macs == 2 * MACS


def test_a_compiled_wrapper_and_its_model_are_one_row():
    model = Small()
    compiled = torch.compile(model, backend="eager")
    compiled(torch.ones(5, 4))

    with flopsight.recording() as seen:
        compiled(torch.ones(5, 4))

    assert [node.path for node in seen.profile.walk() if node.kind] == ["", "0", "1", "2"]
    assert seen.profile.root.kind == "Small"
    assert seen.profile.root.calls == 1


def test_forwards_of_one_class_are_wrapped_and_nothing_stays_in_the_class():
    model, other = Small(), nn.Linear(4, 2)
    calls = []

    def noting(plain):
        def noted(module, *args):
            calls.append(module)
            return plain(module, *args)

        return noted

    with calls_of(Small, noting):
        model(torch.ones(1, 4))
        other(torch.ones(1, 4))

    assert calls == [model]
    assert "__call__" not in vars(Small)


def test_a_class_with_a_call_of_its_own_gets_it_back():
    class Own(Small):
        def __call__(self, x):
            return super().__call__(x) + 1

    own = vars(Own)["__call__"]
    with calls_of(Own, lambda plain: lambda module, *args: plain(module, *args) * 0):
        assert Own()(torch.ones(1, 4)).sum() == 0

    assert vars(Own)["__call__"] is own


def test_a_watch_over_all_modules_sees_those_that_are_counted_too():
    model = Small()
    with calls_of(Small, lambda plain: lambda *args: plain(*args)), flopsight.recording() as seen:
        model(torch.ones(5, 4))

    assert seen.profile.root.calls == 1


def test_who_hears_of_a_step_afterwards_hears_of_it_last_and_may_change_who_listens():
    heard = []
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)

    def afterwards(which):
        heard.append(("after", which is optimizer))
        with optimizer_steps(lambda _: None, lambda: None):
            pass

    with (
        after_optimizer_steps(afterwards),
        optimizer_steps(lambda _: heard.append("begin"), lambda: heard.append("end")),
    ):
        optimizer.step()

    assert heard == ["begin", "end", ("after", True)]


def test_a_step_with_a_closure_is_one_step():
    heard = []
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.LBFGS([weight], max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss

    with after_optimizer_steps(heard.append):
        optimizer.step(closure)

    assert len(heard) == 1


def test_the_finder_is_gone_once_the_model_is_found():
    plain = nn.Module.__call__
    seen = []
    finder = ModelFinder(Search(0, 0).admits, lambda call: (seen.append(nn.Module.__call__ is plain), call())[1])
    finder.watch()
    try:
        nn.ReLU()(torch.ones(1))
        assert nn.Module.__call__ is not plain
        Small()(torch.ones(1, 4))
        assert nn.Module.__call__ is plain
    finally:
        finder.end()

    assert seen == [True]
    assert finder.passed_by == {"ReLU": None}
    assert finder.name == "Small"


def test_a_model_with_a_call_of_its_own_runs_it_once_when_it_is_found():
    class Own(Small):
        called = 0

        def __call__(self, x):
            self.called += 1
            return super().__call__(x)

    model, seen = Own(), []
    finder = ModelFinder(Search(0, 0).admits, lambda call: (seen.append(1), call())[1])
    finder.watch()
    try:
        for _ in range(3):
            model(torch.ones(1, 4))
    finally:
        finder.end()

    assert model.called == 3
    assert len(seen) == 3


def test_what_is_compiled_while_the_finder_looks_keeps_torchs_own_call():
    class Net(nn.Module):
        def forward(self, x):
            return x + 1

    plain = nn.Module.__call__
    finder = ModelFinder(Search(0, 0).admits, lambda call: call())
    finder.watch()
    try:
        compiled = torch.compile(Net(), backend="eager")
    finally:
        finder.end()

    assert compiled.forward._torchdynamo_orig_callable.__func__ is plain
