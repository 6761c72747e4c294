"""Models that are found while they run, steps that are not like the others, and the hooks that tell of them."""

import torch
from torch import nn

import flopsight
from flopsight.capture.hooks.optimizer_steps import after_optimizer_steps, optimizer_steps
from flopsight.capture.hooks.patches import calls_of
from flopsight.capture.model.sites import Sites
from flopsight.caveats import MovedWindow
from flopsight.loop.window import MOST_MOVES, StepWindow
from flopsight.script.model_finder import ModelFinder
from flopsight.script.plan import Plan


class Small(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


MACS = 5 * (4 * 3 + 3 * 2)


def found():
    return Sites(admits=Plan(0, 0).admits)


def train(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(5, 4)).square().mean().backward()
    optimizer.step()


def validate(model):
    model.eval()
    with torch.no_grad():
        model(torch.ones(50, 4))
    model.train()


def windowed(validations, steps=range(2, 4), loops=9):
    """A loop that validates before some of its steps."""
    model = Small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with StepWindow(found(), steps=steps) as window:
        for step in range(loops):
            for _ in range(validations(step)):
                validate(model)
            train(model, optimizer)
            window.step()
    return window


def moves(profile):
    return [caveat for caveat in profile.caveats if isinstance(caveat, MovedWindow)]


def test_a_model_that_is_found_is_the_root_as_if_it_had_been_given():
    model = Small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given, unknown = StepWindow(model, optimizer, steps=[1]), StepWindow(found(), steps=[1])
    for window in (given, unknown):
        with window:
            for _ in range(4):
                train(model, optimizer)
                window.step()

    assert unknown.profile.root.kind == "Small"
    assert {n.path: (n.total, n.params, n.calls) for n in unknown.profile.walk()} == {
        n.path: (n.total, n.params, n.calls) for n in given.profile.walk()
    }
    assert unknown.profile.activation_bytes == given.profile.activation_bytes
    assert unknown.profile.at_peak == given.profile.at_peak


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


def test_a_loss_without_parameters_is_no_model():
    with StepWindow(found(), steps=[0]) as window:
        nn.MSELoss()(Small()(torch.ones(5, 4)), torch.zeros(5, 2)).backward()
        window.step()

    assert window.profile.root.kind == "Small"
    assert window.profile.outside.forward.flops > 0


def test_a_compiled_wrapper_and_its_model_are_one_row():
    model = Small()
    compiled = torch.compile(model, backend="eager")
    compiled(torch.ones(5, 4))

    with flopsight.recording() as seen:
        compiled(torch.ones(5, 4))

    assert [node.path for node in seen.profile.walk() if node.kind] == ["", "0", "1", "2"]
    assert seen.profile.root.kind == "Small"
    assert seen.profile.root.calls == 1


def test_a_step_with_a_validation_before_it_is_passed_over():
    profile = windowed(lambda step: 3 if step == 2 else 0).profile

    assert profile.step == 3
    assert profile.macs == MACS
    (moved,) = moves(profile)
    assert (moved.asked, moved.first) == (2, 3)


def test_a_timed_step_with_a_validation_is_passed_over_and_another_is_timed():
    window = windowed(lambda step: step == 3)

    assert window.profile.step == 2
    assert len(window.profile.timing.step.samples) == 1
    assert [step.number for step in window._timed] == [4]
    assert not moves(window.profile)


def test_a_loop_that_looks_at_its_model_in_every_step_is_taken_as_it_is():
    profile = windowed(lambda step: 2).profile

    assert profile.step == 2
    assert profile.macs == MACS + 2 * 10 * MACS
    assert profile.batch_size == 5  # the samples that it learns from


def test_a_window_does_not_run_away_from_steps_that_are_never_alike():
    profile = windowed(lambda step: step, steps=[2], loops=12).profile

    assert profile.step == 2 + MOST_MOVES


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
    finder = ModelFinder(Plan(0, 0).admits, lambda call: (seen.append(nn.Module.__call__ is plain), call())[1])
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


def test_what_is_compiled_while_the_finder_looks_keeps_torchs_own_call():
    class Net(nn.Module):
        def forward(self, x):
            return x + 1

    plain = nn.Module.__call__
    finder = ModelFinder(Plan(0, 0).admits, lambda call: call())
    finder.watch()
    try:
        compiled = torch.compile(Net(), backend="eager")
    finally:
        finder.end()

    assert compiled.forward._torchdynamo_orig_callable.__func__ is plain
