"""What an op returns on meta is remembered by what went in: nothing that matters may be missing from the key."""

import pytest
import torch
from torch import nn

import flopsight
from flopsight.capture.twin.meta_counter import MetaCounter
from flopsight.formulas import known


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def strides(model, x):
    """The second exponential is in the other order, and making it contiguous takes a copy."""
    y = x @ model.weight
    return y.exp().contiguous().sum() + y.t().exp().contiguous().sum()


def dtypes(model, x):
    y = x @ model.weight
    return (y + y).sum() + (y.half() + y.half()).sum().float() + y.double().exp().sum().float() + y.exp().sum()


def dimensions(model, x):
    y = x @ model.weight
    return y.softmax(0).sum() + y.softmax(1).sum() + y.sum(0).sum() + y.sum(1, keepdim=True).sum()


def types_that_are_equal_in_python(model, x):
    y = x @ model.weight
    return (y * 1).sum() + (y * 1.0).sum() + (y * True).sum() + torch.full((2,), 1).sum() + torch.full((2,), 1.0).sum()


def lists(model, x):
    y = x @ model.weight
    return torch.cat([y, y]).sum() + torch.cat([y, y], 1).sum() + torch.cat([y, y, y]).sum()


def several_results(model, x):
    values, places = (x @ model.weight).sort(1)
    mean, deviation = torch.std_mean(values, 1)
    return values.sum() + places.sum() + mean.sum() + deviation.sum() + torch.std_mean(values, 0)[0].sum()


def reshaped_copies(model, x):
    y = x @ model.weight
    return y.reshape(2, -1).sum() + y.t().reshape(2, -1).sum() + y.t().contiguous().sum()


@pytest.mark.parametrize(
    "function",
    [strides, dtypes, dimensions, types_that_are_equal_in_python, lists, several_results, reshaped_copies],
)
def test_every_op_row_is_the_real_one(function):
    model, x = Calls(function), torch.randn(8, 8)

    real, meta = (flopsight.count(model, (x,), train=True, loss=lambda y: y.sum(), on=on) for on in ("real", "meta"))

    rows = [
        {(row.op, row.phase, row.dtype): (row.calls, row.cost) for row in profile.root.ops} for profile in (real, meta)
    ]
    assert rows[0] == rows[1]
    assert meta.activation_bytes == real.activation_bytes
    assert not meta.caveats


def test_results_remembered_have_storages_of_their_own():
    x = torch.empty(4, 8, device="meta")

    with MetaCounter(None, known):
        first, second = x.exp(), x.exp()
        kept, again = torch.dropout(x, 0.5, train=False), torch.dropout(x, 0.5, train=False)

    assert first.untyped_storage()._cdata != second.untyped_storage()._cdata
    assert kept.untyped_storage()._cdata == again.untyped_storage()._cdata == x.untyped_storage()._cdata


def test_inference_mode_hands_an_untouched_input_through():
    class Drops(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop, self.layer = nn.Dropout(0.5), nn.Linear(8, 8)

        def forward(self, x):
            return self.layer(self.drop(self.drop(x)))

    model, x = Drops().eval(), torch.randn(4, 8)

    with torch.inference_mode():
        real, meta = (flopsight.count(model, (x,), on=on) for on in ("real", "meta"))

    assert (meta.macs, meta.flops, meta.forward.bytes) == (real.macs, real.flops, real.forward.bytes)


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_convolutions_keep_the_order_of_their_channels(order):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, groups=8), nn.Flatten())
    x = torch.randn(2, 3, 12, 12).contiguous(memory_format=order)

    real, meta = (flopsight.count(model, (x,), on=on) for on in ("real", "meta"))

    assert [node.own for node in meta.walk()] == [node.own for node in real.walk()]
