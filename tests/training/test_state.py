"""A training step of ours leaves no trace, says what that costs, and can run on a copy instead."""

import copy

import pytest
import torch
from leftovers import no_trace
from torch import nn

import flopsight
from flopsight.errors import InputError
from flopsight.results.caveats import PutBack

ROWS, WIDE = 8, 16
WEIGHTS = WIDE * WIDE + WIDE
NORM = 2 * WIDE
STATISTICS = 2 * WIDE * 4 + 8
"""Bytes of a norm's running mean and variance, and its count of batches."""


def net():
    return nn.Sequential(nn.Linear(WIDE, WIDE), nn.BatchNorm1d(WIDE), nn.Dropout(0.5), nn.Linear(WIDE, WIDE))


def rows():
    return torch.randn(ROWS, WIDE)


def trained(optimizer_of=torch.optim.AdamW):
    """A model and its optimizer in the middle of their training: moving averages, gradients and statistics."""
    model = net()
    optimizer = optimizer_of(model.parameters())
    model(rows()).sum().backward()
    optimizer.step()
    return model, optimizer


def state_of(optimizer):
    return copy.deepcopy(optimizer.state_dict())


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


MEASURES = {
    "count": lambda model, x, optimizer: flopsight.count(model, (x,), train=True, optimizer=optimizer),
    "count on a copy": lambda model, x, optimizer: flopsight.count(
        model, (x,), train=True, optimizer=optimizer, on="copy"
    ),
    "profile": lambda model, x, optimizer: flopsight.profile(
        model, (x,), train=True, optimizer=optimizer, warmup=1, repeats=2
    ),
    "profile on a copy": lambda model, x, optimizer: flopsight.profile(
        model, (x,), train=True, optimizer=optimizer, warmup=1, repeats=2, on="copy"
    ),
}


@pytest.mark.parametrize("measure", MEASURES)
def test_a_measured_step_leaves_model_optimizer_and_generators_as_they_were(measure):
    model, optimizer = trained()
    before, x = state_of(optimizer), rows()

    with no_trace(model):
        profile = MEASURES[measure](model, x, optimizer)

    assert profile.optimizer.flops > 0
    assert same(state_of(optimizer), before)


def test_the_profile_of_a_step_says_how_much_was_copied_to_undo_it():
    model, optimizer = trained()
    x = rows()

    profile = flopsight.count(model, (x,), train=True, optimizer=optimizer)

    parameters = 4 * (2 * WEIGHTS + NORM)
    state = 2 * parameters + 6 * 4  # two averages, and a count of steps for each of six tensors
    (said,) = [caveat for caveat in profile.caveats if isinstance(caveat, PutBack)]
    assert said.copied == parameters + state + STATISTICS + x.nbytes
    assert "7.58 kB of parameters, optimizer state, buffers and inputs were copied" in str(said)


def test_without_an_optimizer_only_buffers_and_inputs_are_copied():
    x = rows()

    profile = flopsight.count(net(), (x,), train=True)

    (said,) = [caveat for caveat in profile.caveats if isinstance(caveat, PutBack)]
    assert said.copied == STATISTICS + x.nbytes
    assert "of buffers and inputs were copied" in str(said)


@pytest.mark.parametrize("on", ["meta", "copy"])
def test_a_run_on_a_copy_puts_nothing_back(on):
    model, optimizer = trained()

    profile = flopsight.count(model, (rows(),), train=True, optimizer=optimizer, on=on)

    assert not [caveat for caveat in profile.caveats if isinstance(caveat, PutBack)]


def test_a_copy_is_what_runs_and_the_model_itself_does_not():
    calls = []

    class Noted(nn.Linear):
        def forward(self, x):
            calls.append(self)
            return super().forward(x)

    model = Noted(WIDE, WIDE)

    profile = flopsight.count(model, (rows(),), train=True, on="copy")

    assert len(calls) == 1
    assert calls[0] is not model
    assert profile.backward.macs == ROWS * WIDE * WIDE
    assert profile.root.param_bytes == 4 * WEIGHTS


def test_a_loss_that_reads_the_model_leaves_no_gradient_in_it_though_a_copy_ran():
    model = nn.Linear(WIDE, WIDE)

    flopsight.count(model, (rows(),), train=True, loss=lambda out: out.sum() + model.weight.norm(), on="copy")

    assert model.weight.grad is None


def test_a_model_that_cannot_be_copied_is_refused_with_the_way_out():
    model = nn.Linear(WIDE, WIDE)
    model.generator = (number for number in range(3))

    with pytest.raises(InputError, match=r"Linear cannot be copied .* on=.real.: it is put back"):
        flopsight.count(model, (rows(),), train=True, on="copy")


def test_a_profile_on_meta_is_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"flopsight.count\(..., on='meta'\)"):
        flopsight.profile(net(), (rows(),), on="meta")
