"""A step that ends badly: what ran so far is kept, and it is said where the trouble was."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flopsight
from flopsight.errors import InputError
from flopsight.results.caveats import Raised

ROWS, WIDE = 8, 16
X = ROWS * WIDE * WIDE
FULL = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 3.56 GiB is free."


def rows():
    return torch.randn(ROWS, WIDE)


class Greedy(nn.Module):
    """A layer that a device has no room for."""

    def forward(self, x):
        raise torch.OutOfMemoryError(FULL)


class GreedyBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient.new_empty(1 << 60)  # no machine has that much


class Late(nn.Module):
    def forward(self, x):
        return GreedyBackward.apply(x)


class Model(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.first, self.last = nn.Linear(WIDE, WIDE), nn.Sequential(nn.Linear(WIDE, WIDE), last)

    def forward(self, x):
        return self.last(self.first(x))


def raised(profile):
    (said,) = [caveat for caveat in profile.caveats if isinstance(caveat, Raised)]
    return said


@pytest.mark.parametrize("measure", [flopsight.count, flopsight.profile])
def test_out_of_memory_keeps_the_profile_and_names_the_module_and_what_it_asked_for(measure):
    with pytest.raises(torch.OutOfMemoryError) as problem:
        measure(Model(Greedy()), (rows(),), train=True)

    so_far = problem.value.flopsight_profile
    assert so_far.macs == 2 * X
    assert so_far.peak_bytes > 0
    said = raised(so_far)
    assert (said.module, said.phase, said.asked) == ("last.1", "forward", "20.00 GiB")
    assert str(said) == (
        "OutOfMemoryError was raised in last.1, forward, which asked for 20.00 GiB: all figures are those until then."
    )


def test_memory_that_an_op_of_backward_could_not_get_is_asked_for_by_the_module_that_made_the_node():
    with pytest.raises(RuntimeError) as problem:
        flopsight.count(Model(Late()), (rows(),), train=True)

    so_far = problem.value.flopsight_profile
    said = raised(so_far)
    assert (said.module, said.phase) == ("last.1", "backward")
    assert said.asked.startswith(str(4 << 60))
    assert (so_far.macs, so_far.backward.macs) == (2 * X, 0)


def test_a_checkpoint_that_raises_when_it_is_run_again_is_named_as_recompute():
    class Tired(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls > 1:
                raise torch.OutOfMemoryError(FULL)
            return x.exp()

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.tired = nn.Linear(WIDE, WIDE), Tired()

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.tired, self.first(x), use_reentrant=False)

    with pytest.raises(torch.OutOfMemoryError) as problem:
        flopsight.count(Checkpointed(), (rows(),), train=True)

    said = raised(problem.value.flopsight_profile)
    assert (said.module, said.phase) == ("tired", "recompute")


def test_any_exception_half_way_says_where_and_leaves_what_ran():
    with pytest.raises(RuntimeError) as problem:
        flopsight.count(Model(nn.Linear(WIDE + 1, WIDE)), (rows(),), train=True)

    so_far = problem.value.flopsight_profile
    said = raised(so_far)
    assert (said.problem, said.module, said.phase, said.asked) == ("RuntimeError", "last.1", "forward", "")
    assert so_far.macs == 2 * X


def test_a_recording_says_what_ended_it():
    model = Model(Greedy())

    with pytest.raises(torch.OutOfMemoryError), flopsight.recording(model) as r:
        model(rows())

    assert raised(r.profile).module == "last.1"


def test_trouble_outside_the_model_is_said_to_be_outside():
    model = Model(nn.Identity())

    with pytest.raises(IndexError), flopsight.recording(model) as r:
        F.cross_entropy(model(rows()), torch.full((ROWS,), WIDE + 5))

    assert raised(r.profile).module == "<outside>"


def test_an_exception_that_was_caught_is_no_trouble():
    class Catches(nn.Module):
        def __init__(self):
            super().__init__()
            self.greedy, self.modest = Greedy(), nn.Linear(WIDE, WIDE)

        def forward(self, x):
            try:
                return self.greedy(x)
            except torch.OutOfMemoryError:
                return self.modest(x)

    profile = flopsight.count(Catches(), (rows(),), train=True)

    assert not [caveat for caveat in profile.caveats if isinstance(caveat, Raised)]
    assert profile.macs == X


def test_a_window_that_an_exception_ends_says_so():
    model = Model(Greedy())

    with pytest.raises(torch.OutOfMemoryError), flopsight.step_profiler(model, steps=range(1)) as window:
        model(rows())

    said = raised(window.profile)
    assert (said.module, said.asked) == ("last.1", "20.00 GiB")
    assert window.profile.macs == 2 * X


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": lambda out: out}, r"single number, but loss\(output\) has shape \[8, 16\]. Reduce it: .mean\(\)."),
        ({"loss": lambda out: out.detach().sum()}, "does not depend on any parameter"),
        ({"optimizer": torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)}, "made for another model"),
    ],
)
@pytest.mark.parametrize("on", ["real", "copy", "meta"])
def test_what_cannot_be_trained_is_refused_wherever_it_runs(options, words, on):
    with pytest.raises(InputError, match=words):
        flopsight.count(Model(nn.Identity()), (rows(),), train=True, on=on, **options)


@pytest.mark.parametrize("on", ["real", "copy", "meta"])
def test_an_output_without_gradient_is_refused_wherever_it_runs(on):
    with pytest.raises(InputError, match="no gradient, so there is nothing to train"):
        flopsight.count(Model(nn.Identity()).requires_grad_(False), (rows(),), train=True, on=on)


def test_an_optimizer_that_runs_the_model_itself_is_sent_to_the_loop():
    model = Model(nn.Identity())

    with pytest.raises(InputError, match="LBFGS runs the model itself, .* flopsight.step_profiler"):
        flopsight.count(model, (rows(),), train=True, optimizer=torch.optim.LBFGS(model.parameters()))
