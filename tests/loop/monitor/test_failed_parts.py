"""Loops that catch a failing call or backward and go on: that step's work is absent, every other one is known as before."""

import pytest
import torch
from loop.monitor.training import OUT, WIDE, mlp, mlp_flops, model_flops, one_step, rows, watched
from torch import nn

BAD = 3
STEPS = 7


def found(seen):
    return [record.get("flopsight/model_flops") for record in seen]


def with_one_absent(flops):
    return [None if number == BAD else flops for number in range(STEPS)]


@pytest.mark.parametrize("by_hand", [True, False], ids=["step() after each", "only good batches step"])
def test_a_batch_of_the_wrong_width_is_not_blamed_on_the_model(by_hand):
    def loop(model, optimizer, live):
        for number in range(STEPS):
            try:
                one_step(model, optimizer, rows(4)[:, : WIDE - 1] if number == BAD else rows(4))
            except RuntimeError:
                pass
            if by_hand:
                live.step()

    seen, live = watched(loop, every=1)

    if by_hand:
        assert found(seen) == with_one_absent(mlp_flops(4))
    else:  # the failed call is a part of the step that ends with the next update
        assert found(seen) == with_one_absent(mlp_flops(4))[: STEPS - 1]
    assert live.summary().notes == ()


class Breaking(torch.autograd.Function):
    """Raises in a backward if it was told to."""

    broken = False

    @staticmethod
    def forward(_ctx, x):
        return x.clone()

    @staticmethod
    def backward(_ctx, gradient):
        if Breaking.broken:
            raise RuntimeError("no memory left")
        return gradient


class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDE, WIDE, bias=False), nn.Linear(WIDE, OUT, bias=False)

    def forward(self, x):
        return self.second(Breaking.apply(self.first(x)))


def test_a_backward_that_raised_did_an_unknown_part_of_its_work():
    def loop(model, optimizer, live):
        for number in range(STEPS):
            Breaking.broken = number == BAD
            try:
                one_step(model, optimizer, rows(4))
            except RuntimeError:
                optimizer.zero_grad()
            live.step()
        Breaking.broken = False

    seen, live = watched(loop, Split(), every=1)

    assert found(seen) == with_one_absent(2 * 4 * WIDE * (2 * WIDE + 3 * OUT))
    assert live.summary().notes == ()


def test_a_step_that_failed_while_it_was_counted_teaches_nothing():
    def loop(model, optimizer, live):
        for number in range(STEPS):
            try:
                (model(rows(4)) @ torch.ones(OUT, 3)).sum().backward()  # a product of the loop's own: steps are counted
                if number in (1, BAD):
                    model(rows(4)[:, : WIDE - 1])
            except RuntimeError:
                optimizer.zero_grad()
            optimizer.step()
            live.step()

    seen, _ = watched(loop, nn.Linear(WIDE, OUT, bias=False), every=1)

    usual = 2 * 4 * OUT * (2 * WIDE + 2 * 3)
    assert found(seen)[1:] == [None if number in (1, BAD) else usual for number in range(1, STEPS)]
    assert found(seen)[0] in (None, usual)  # not counted before the one that failed


class Stored(nn.Module):
    """Keeps its loss, and returns None."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDE, OUT, bias=False)

    def forward(self, x):
        self.loss = self.layer(x).sum()


def test_a_model_that_returns_nothing_has_not_failed():
    def loop(model, optimizer, live):
        for _ in range(3):
            model(rows(4))
            model.loss.backward()
            optimizer.step()

    seen, _ = watched(loop, Stored(), every=1)

    assert model_flops(seen) == [2 * 2 * 4 * WIDE * OUT] * 3


def test_a_model_called_under_a_transform_of_torch_is_counted_while_it_runs():
    def loop(model, optimizer, live):
        for _ in range(3):
            optimizer.zero_grad()
            torch.vmap(model)(torch.ones(2, 4, WIDE)).sum().backward()
            optimizer.step()

    seen, _ = watched(loop, mlp(), every=1)

    assert model_flops(seen) == [mlp_flops(8)] * 3
