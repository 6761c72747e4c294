"""The watchman itself: each kind of leftover is noticed, so the fixture can fail."""

import random

import numpy as np
import pytest
import torch
from leftovers import differences, no_trace, process_state
from torch import nn


def notices(change, undo):
    before = process_state()
    change()
    try:
        return differences(before, process_state())
    finally:
        undo()


def test_a_patched_module_call_is_noticed(monkeypatch):
    plain = nn.Module.__call__

    assert "nn.Module.__call__" in notices(
        lambda: setattr(nn.Module, "__call__", lambda self, *a: plain(self, *a)),
        lambda: setattr(nn.Module, "__call__", plain),
    )


def test_a_patched_functional_is_noticed():
    plain = torch.nn.functional.linear

    assert notices(
        lambda: setattr(torch.nn.functional, "linear", lambda *a: plain(*a)),
        lambda: setattr(torch.nn.functional, "linear", plain),
    ) == ["torch.nn.functional.linear"]


def test_a_changed_default_dtype_is_noticed():
    assert notices(lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)) == [
        "default dtype"
    ]


def test_a_switched_off_gradient_is_noticed():
    assert notices(lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True)) == ["grad mode"]


def test_a_global_hook_is_noticed():
    handles = []

    assert notices(
        lambda: handles.append(nn.modules.module.register_module_forward_hook(lambda *a: None)),
        lambda: handles[0].remove(),
    ) == ["_global_forward_hooks"]


@pytest.mark.parametrize(
    ("name", "change"),
    {
        "training": lambda model: model[0].eval(),
        "hook": lambda model: model[0].register_forward_hook(lambda *a: None),
        "attribute": lambda model: setattr(model[0], "__flops__", 3),
        "wrapped forward": lambda model: setattr(model[0], "forward", lambda x: x),
        "gradient": lambda model: setattr(model[0].weight, "grad", torch.ones_like(model[0].weight)),
        "frozen": lambda model: model[0].weight.requires_grad_(False),
        "buffer": lambda model: model[1].running_mean.add_(1),
        "weight": lambda model: model[0].weight.data.mul_(2),
        "state_dict key": lambda model: model[0].register_buffer("total_ops", torch.zeros(1)),
        "torch generator": lambda model: torch.rand(1),
        "numpy generator": lambda model: np.random.rand(),
        "python generator": lambda model: random.random(),
    }.items(),
)
def test_every_change_of_a_model_or_a_generator_is_noticed(name, change):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    with pytest.raises(AssertionError, match="left behind"), no_trace(model):
        change(model)


def test_a_block_that_changes_nothing_passes():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()

    with no_trace(model), torch.no_grad():
        model(torch.ones(2, 4))


def test_leftovers_are_noticed_although_the_block_raised():
    model = nn.Linear(2, 2)

    with pytest.raises(AssertionError, match="training"), no_trace(model):
        model.eval()
        raise ValueError
