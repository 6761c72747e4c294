"""Branches and loops as ops: the branch that was taken and the trips that were made are counted."""

import pytest
import torch
from releases import TORCH, since
from torch import nn
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as map_rows

import flopsight

ROWS, WIDTH = 4, 8
PRODUCT = ROWS * WIDTH * WIDTH
X, W = torch.ones(ROWS, WIDTH), torch.ones(WIDTH, WIDTH)


class Chooses(nn.Module):
    """A layer on one branch, an addition on the other."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, batch, chosen):
        return torch.cond(chosen, self.layer, lambda batch: batch + 1, (batch,))


@pytest.mark.parametrize(("chosen", "macs", "flops"), [(True, PRODUCT, 2 * PRODUCT), (False, 0, ROWS * WIDTH)])
@pytest.mark.parametrize("on", ["real", "meta"])
def test_of_two_branches_the_one_that_ran_is_counted(chosen, macs, flops, on):
    profile = flopsight.count(Chooses().eval(), (X, torch.tensor(chosen)), on=on)

    assert (profile.macs, profile.flops) == (macs, flops)
    assert profile["layer"].calls == chosen
    assert profile.coverage.complete


def test_the_weights_of_a_branch_get_their_gradient_and_its_work_is_backward():
    model = Chooses()

    with flopsight.recording(model) as recording:
        model(X, torch.tensor(True)).sum().backward()

    assert recording.profile["layer"].total.backward.macs == PRODUCT, "the gradient of the weight; the input needs none"
    assert torch.equal(model.layer.weight.grad, torch.full((WIDTH, WIDTH), float(ROWS)))


class Scans(nn.Module):
    """A layer for every row, with a sum that goes along."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, batch):
        step = lambda total, row: (total + row, self.layer(row) + total)  # noqa: E731
        return scan(step, torch.zeros(WIDTH), batch, dim=0)[1]


class Maps(Scans):
    """A layer for every row."""

    def forward(self, batch):
        return map_rows(self.layer, batch)


LOOPS = [pytest.param(Scans, marks=since((2, 7), "scan that trains")), Maps]


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("on", ["real", "meta"])
def test_the_weights_of_a_loop_get_their_gradient_and_its_work_is_backward(kind, on):
    model = kind()

    profile = flopsight.count(model, (X,), train=True, on=on)

    assert (profile.macs, profile.backward.macs) == (PRODUCT, PRODUCT), (
        "the gradient of the weight; the input needs none"
    )
    assert profile["layer"].calls == ROWS


@pytest.mark.parametrize("kind", LOOPS)
def test_a_recorded_loop_trains_as_it_does_without_us(kind):
    model = kind()

    with flopsight.recording(model) as recording:
        output = model(X)
        output.sum().backward()

    assert recording.profile.backward.macs == PRODUCT
    assert torch.equal(model.layer.weight.grad, torch.full((WIDTH, WIDTH), float(ROWS)))
    assert torch.allclose(output, model(X), atol=1e-6), "sums may end near zero"


def test_every_trip_of_a_loop_is_counted():
    trips = 3
    with flopsight.recording() as recording:
        while_loop(lambda i, _: i < trips, lambda i, batch: (i + 1, batch @ W), (torch.tensor(0), X))

    assert recording.profile.macs == trips * PRODUCT
    assert recording.profile.coverage.complete


def test_every_step_of_a_scan_is_counted():
    with flopsight.recording() as recording:
        scan(lambda total, row: (total + row, total * row), torch.zeros(WIDTH), X, dim=0)

    ahead = 0 if TORCH >= (2, 7) else 2  # older ones run steps to learn the shapes
    assert recording.profile.flops == (ROWS + ahead) * 2 * WIDTH
    assert recording.profile.coverage.complete


@since((2, 8), "map that runs its function once a row and no more")
def test_every_row_of_a_map_is_counted():
    with flopsight.recording() as recording:
        map_rows(lambda row: row @ W, X)

    assert recording.profile.macs == PRODUCT
