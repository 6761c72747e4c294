"""A model that is built on meta keeps the constants that its constructor makes."""

import numpy as np
import pytest
import torch
from torch import nn

import flopsight
from flopsight.capture.twin.known_values import value_of
from flopsight.capture.twin.meta_build import building_on_meta, settle_on_meta


class Strided(nn.Module):
    """Pads to a multiple of a stride that is kept as a tensor, as codecs for sound do."""

    def __init__(self):
        super().__init__()
        self.stride = nn.Buffer(torch.tensor(4), persistent=False)
        self.twice = nn.Buffer(self.stride * 2, persistent=False)
        self.linear = nn.Linear(1, 1, bias=False)

    def forward(self, x):
        length = x.shape[1]
        missing = int(torch.ceil(length / self.twice)) * int(self.twice) - length
        return self.linear(nn.functional.pad(x, (0, 0, 0, missing)))


def test_a_shape_may_depend_on_a_constant_of_the_constructor():
    with building_on_meta():
        model = Strided()

    profile = flopsight.count(model, torch.ones(1, 13, 1, device="meta"))

    assert all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])
    assert profile.macs == 16  # 13 rows, padded to a multiple of 8


def test_a_constructor_reads_numbers_that_it_has_made():
    with building_on_meta():
        rates = torch.linspace(0, 1, 3)
        steps = [rate.item() for rate in rates]
        chosen = rates[rates > 0.2]
        table = torch.arange(6).view(2, 3).T.tolist()

    assert steps == [0, 0.5, 1]
    assert chosen.shape == (2,)
    assert table == [[0, 3], [1, 4], [2, 5]]


def test_what_is_written_into_a_constant_is_its_value():
    with building_on_meta():
        mask = torch.zeros(2, 2)
        mask[0, 1] = 3.0
        mask[1].fill_(2.0)

    assert value_of(mask).tolist() == [[0, 3], [2, 2]]


def test_random_weights_have_no_value_to_read():
    with building_on_meta():
        weights = nn.Linear(2, 2).weight

        with pytest.raises(RuntimeError, match="meta"):
            weights.sum().item()


def test_a_tensor_that_is_made_on_the_cpu_on_purpose_stays_there():
    with building_on_meta():
        made = torch.tensor([1, 2], device="cpu")
        picked = made[made > 1]

    assert picked.tolist() == [2]


def test_what_a_constructor_makes_on_the_cpu_all_the_same_is_moved_with_its_values():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.Tensor(2).fill_(3))  # torch's old constructor knows no default device
            self.same = self.scale
            self.register_buffer("table", torch.from_numpy(np.arange(3)))

        def forward(self, x):
            return x * self.scale * self.same + self.table[0]

    with building_on_meta():
        model = Scaled()
    settle_on_meta(model)
    profile = flopsight.count(model, torch.ones(5, 2, device="meta"), train=True)

    assert model.same is model.scale
    assert model.scale.is_meta
    assert value_of(model.table).tolist() == [0, 1, 2]
    assert profile.flops == 5 * 2 * 3 + 5 * 2  # the default loss sums up the output


def test_a_model_with_a_parameter_off_meta_is_trained_on_meta_all_the_same():
    class Masked(nn.Linear):
        def __init__(self):
            super().__init__(4, 4, bias=False)
            self.mask = nn.Parameter(torch.Tensor(4).fill_(0))

        def forward(self, x):
            x = super().forward(x)
            x[torch.tensor([True, False, True], device=x.device)] = self.mask
            return super().forward(x)

    with torch.device("meta"):
        model = Masked()
    profile = flopsight.count(model, torch.ones(3, 4, device="meta"), train=True)

    assert not model.mask.is_meta
    assert profile.macs == 2 * 3 * 4 * 4
    assert profile.backward.macs == 3 * 3 * 4 * 4  # both products for the weight, one for the rows between
