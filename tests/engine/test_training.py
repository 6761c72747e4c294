"""A training step: whose loss, whose backward, whose optimizer, and what each costs."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn
from toys import DOWN, MACS, PARAMS, UP, Net, rows

import flopsight


class Gives(nn.Module):
    """A linear without bias, 8 -> 2 on 4 rows, whose output goes through `give`."""

    def __init__(self, give):
        super().__init__()
        self.layer = nn.Linear(8, 2, bias=False)
        self.give = give

    def forward(self, x):
        return self.give(self.layer(x))


@dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


LOSSES = {
    "an attribute called loss": lambda y: Output(logits=y, loss=(y * y).sum()),
    "an entry called loss": lambda y: {"logits": y, "loss": (y * y).sum()},
    "a scalar": lambda y: (y * y).sum(),
    "a tensor of one element": lambda y: (y * y).sum().reshape(1),
    "a scalar among others": lambda y: (y, (y * y).sum()),
}


@pytest.mark.parametrize("case", LOSSES)
def test_the_default_loss_is_the_model_s_own(case):
    profile = flopsight.count(Gives(LOSSES[case]), (rows(),), train=True)

    assert profile.trained
    assert profile.backward.macs == 4 * 8 * 2  # of the weight; the input needs none
    assert profile.outside is None or profile.outside.forward.flops == 0  # nothing had to be summed


SUMMED = {
    "a tensor": (lambda y: y, 8),
    "an output with a loss of None": (lambda y: Output(logits=y), 8),
    "two tensors and their sum": (lambda y: [y, {"more": y}], 8 + 8 + 2),
    "a tensor beside integers": (lambda y: (y, y.argmax(1)), 8),
    "two losses beside a tensor, and their sum": (lambda y: {"one": y[0, 0], "other": y[0, 1], "logits": y}, 1 + 1 + 2),
}


@pytest.mark.parametrize("case", SUMMED)
def test_without_a_loss_the_floating_outputs_are_summed(case):
    give, flops = SUMMED[case]

    profile = flopsight.count(Gives(give), (rows(),), train=True)

    assert profile.backward.macs == 4 * 8 * 2
    assert profile.outside.forward.flops == flops


def test_the_user_s_loss_gets_the_output_and_is_counted_outside():
    target = torch.zeros(4, 2)
    seen = []

    def loss(output):
        seen.append(output.shape)
        return ((output - target) ** 2).mean()

    profile = flopsight.count(Gives(lambda y: y), (rows(),), train=True, loss=loss)

    assert seen == [(4, 2)]
    assert profile.outside.forward.flops == 8 + 8 + 8  # difference, square, mean
    assert profile["layer"].backward.macs == 4 * 8 * 2


def test_backward_is_what_autograd_ran():
    frozen = Net()
    frozen.up.requires_grad_(False)

    assert flopsight.count(Net(), (rows(),), train=True).backward.macs == UP + 2 * DOWN
    assert flopsight.count(Net(), (rows(requires_grad=True),), train=True).backward.macs == 2 * MACS
    assert flopsight.count(frozen, (rows(),), train=True).backward.macs == 2 * DOWN


def test_without_training_there_is_no_backward():
    profile = flopsight.count(Net(), (rows(requires_grad=True),))

    assert not profile.trained
    assert profile.backward.flops == profile.optimizer.flops == 0


@pytest.mark.parametrize("on", ["real", "meta"])
def test_plain_gradient_descent_is_one_pointwise_op_a_parameter(on):
    model = Net()

    profile = flopsight.count(
        model, (rows(),), train=True, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), on=on
    )

    assert profile.optimizer.flops == PARAMS  # p.add_(gradient, alpha=-lr)
    assert profile["up"].optimizer.flops == 8 * 16 + 16


@pytest.mark.parametrize("on", ["real", "meta"])
def test_adam_s_state_belongs_to_the_parameters_it_is_for(on):
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())

    profile = flopsight.count(model, (rows(),), train=True, optimizer=optimizer, on=on)

    assert profile["up"].optimizer_bytes == 2 * 4 * (8 * 16 + 16) + 2 * 4  # two moments, and a step count a tensor
    assert profile.root.optimizer_bytes == 2 * 4 * PARAMS + 6 * 4


def test_a_training_profile_times_every_part_of_the_step():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    profile = flopsight.profile(model, (rows(),), train=True, optimizer=optimizer, warmup=1, repeats=3)

    timing = profile.timing
    parts = [timing.forward, timing.backward, timing.optimizer, timing.step]
    assert all(part is not None and len(part.samples) == 3 and part.median > 0 for part in parts)
    for forward, backward, update, step in zip(*(part.samples for part in parts), strict=True):
        assert step == pytest.approx(forward + backward + update)
    assert profile.throughput == 4 / timing.step.median


def test_without_an_optimizer_no_update_is_timed():
    timing = flopsight.profile(Net(), (rows(),), train=True, warmup=0, repeats=1).timing

    assert timing.optimizer is None
    assert timing.backward is not None


def test_peak_memory_of_a_step_holds_model_gradients_and_state():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())

    profile = flopsight.profile(model, (rows(),), train=True, optimizer=optimizer, latency=False)

    assert profile.at_peak["gradients"] == 4 * PARAMS
    assert profile.peak_bytes == sum(profile.at_peak.values())
    assert profile.peak_bytes >= 4 * (PARAMS + PARAMS + 2 * PARAMS)


def test_memory_can_be_left_out():
    assert flopsight.profile(Net(), (rows(),), latency=False, memory=False).peak_bytes is None


def test_a_loss_that_the_model_brings_is_used_as_it_is():
    class Scored(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return {"loss": self.layer(x).square().mean()}

    given = flopsight.count(Scored(), (torch.ones(3, 4),), train=True, loss=lambda output: output["loss"])
    brought = flopsight.count(Scored(), (torch.ones(3, 4),), train=True)

    assert brought.coverage == given.coverage, "no op of ours is among those of the model"
