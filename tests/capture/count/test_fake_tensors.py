"""Torch works out shapes on fake tensors: nothing runs, so nothing is counted, and a first call costs what a second does."""

import pytest
import torch
from functorch.compile import aot_module, nop
from releases import since
from torch import nn
from torch._subclasses import FakeTensorMode

import flopsight
import flopsight.errors


def counted(run, model=None):
    with flopsight.recording(model) as recording:
        run()
    return recording.profile


def test_products_of_fake_tensors_are_no_work():
    def fake():
        with FakeTensorMode():
            torch.empty(64, 64) @ torch.randn(64, 64)

    profile = counted(fake)

    assert profile.root.total.total.macs == 0
    assert profile.root.total.total.bytes == 0
    assert profile.coverage.calls == 0


def test_a_model_that_runs_on_fake_tensors_was_not_called():
    def fake():
        with FakeTensorMode():
            nn.Linear(8, 2)(torch.empty(4, 8)).sum().backward()

    profile = counted(fake)

    assert profile.root.calls == 0
    assert profile.root.activation_bytes == 0
    assert not profile.trained


def test_real_work_beside_a_fake_shape_is_counted():
    def mixed():
        with FakeTensorMode():
            torch.empty(64, 64) @ torch.empty(64, 64)
        torch.ones(4, 8) @ torch.ones(8, 2)

    assert counted(mixed).macs == 4 * 8 * 2


def test_a_model_that_is_traced_ahead_of_time_costs_as_much_in_its_first_call_as_in_its_second():
    model = aot_module(nn.Linear(8, 16, bias=False), nop)
    batch = torch.randn(4, 8)

    def step():
        model.zero_grad()
        model(batch).sum().backward()

    first, second = counted(step), counted(step)

    product = 4 * 8 * 16  # forward, and backward the gradient of the weight
    for profile in (first, second):
        total = profile.root.total
        assert (total.forward.macs, total.backward.macs) == (product, product)
        assert profile.root.calls == 1


@since((2, 8), "export while compiled code is held back")
def test_an_export_runs_nothing():
    batch = torch.randn(4, 8)

    profile = counted(lambda: torch.export.export(nn.Sequential(nn.Linear(8, 16)), (batch,)).run_decompositions())

    assert profile.root.total.total.macs == 0


def test_a_module_made_inside_a_forward_is_no_further_call_of_its_caller():
    class Makes(nn.Module):
        def forward(self, batch):
            return nn.ReLU()(batch)

    profile = flopsight.count(Makes(), (torch.ones(4, 8),))

    assert profile.root.calls == 1
    assert profile.flops == 4 * 8


def test_a_model_of_fake_tensors_costs_what_it_would_with_data_and_is_not_timed():
    with FakeTensorMode():
        model, x = nn.Linear(8, 4), torch.ones(2, 8)

    profile = flopsight.profile(model, (x,))

    assert (profile.macs, profile.flops) == (2 * 8 * 4, 2 * 2 * 8 * 4 + 2 * 4)
    assert profile.latency is None


def test_a_count_inside_a_fake_tensor_mode_is_that_of_the_model():
    model, x = nn.Linear(8, 4), torch.ones(2, 8)

    with FakeTensorMode(allow_non_fake_inputs=True):
        profile = flopsight.count(model, (x,), train=True)

    assert (profile.macs, profile.backward.macs) == (2 * 8 * 4, 2 * 8 * 4)


def test_a_model_of_fake_tensors_that_has_no_twin_is_refused():
    with FakeTensorMode():
        model, x = nn.Linear(8, 4), torch.ones(2, 8)
    model.register_forward_hook(lambda *_: None)

    with pytest.raises(flopsight.errors.InputError, match="FakeTensors compute nothing.*has hooks"):
        flopsight.count(model, (x,))
