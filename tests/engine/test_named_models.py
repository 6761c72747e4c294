"""Models and optimizers by their names, as on the command line."""

import pytest
import torch

import flopsight
from flopsight.errors import FlopsightError


def test_a_string_is_a_target():
    """LeNet-5: 156 + 2,416 + 48,120 + 10,164 + 850 parameters."""
    named = flopsight.count("zoo:lenet5", input_shape=(2, 1, 32, 32), on="meta")

    assert named.batch_size == 2
    assert named.params == 156 + 2_416 + 48_120 + 10_164 + 850
    assert not named.trained


def test_a_string_is_built_once_for_a_step_with_an_optimizer_s_name():
    step = flopsight.count("zoo:lenet5", train=True, optimizer="adamw", on="meta")

    assert step.backward.macs > 0
    assert step.optimizer.flops > 0
    with pytest.raises(FlopsightError, match="a name too"):
        flopsight.count("zoo:lenet5", train=True, optimizer=torch.optim.SGD([torch.ones(1, requires_grad=True)]))
