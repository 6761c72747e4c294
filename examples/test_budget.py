"""A test that fails when a model becomes more expensive, and names the modules that did it.

pytest examples/test_budget.py
"""

import pytest
import torch
from torch import nn


def build():
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 30 * 30, 10))


@pytest.mark.model_budget(params="150k", flops="2.5M")
def test_the_model_stays_within_its_budget(profile_model):
    profile_model(build(), torch.randn(2, 3, 32, 32))
