"""Models whose work values steer: routed experts and packed batches, each step against a sum written here."""

import pytest
import torch
from loop.monitor.training import model_flops, watched
from torch import nn

WIDE, EXPERTS = 6, 3


class Mixture(nn.Module):
    """Every row goes to the expert that the router prefers."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDE, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDE, WIDE, bias=False) for _ in range(EXPERTS))

    def forward(self, x):
        gate, choice = self.router(x).softmax(-1).max(-1)
        found = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (choice == number).nonzero().squeeze(-1)
            found = found.index_put((rows,), expert(x[rows]))
        return found * gate.unsqueeze(-1)


@pytest.mark.parametrize("weights", [0, 2, 18, 25])  # in a step of each, an expert gets six rows: as many as it is wide
def test_a_mixture_of_experts_has_the_work_of_one_expert_a_row_wherever_rows_go(weights):
    torch.manual_seed(weights)

    def loop(model, optimizer, live):
        for seed, count in ((0, 8), (1, 8), (2, 5), (3, 8)):
            batch = torch.randn(count, WIDE, generator=torch.Generator().manual_seed(seed))
            model(batch).square().sum().backward()
            optimizer.step()

    seen, _ = watched(loop, model=Mixture(), every=1)

    def flops(rows):  # forward, and the gradient of every weight
        return 2 * 2 * rows * (WIDE * EXPERTS + WIDE * WIDE)

    assert model_flops(seen) == [flops(rows) for rows in (8, 8, 5, 8)]


class Packed(nn.Module):
    """Attends within each of the sequences that were packed into a batch."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDE, WIDE, bias=False)

    def forward(self, x, cu_seqlens):
        hidden, ends = self.up(x), cu_seqlens.tolist()
        parts = [hidden[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]
        return torch.cat([part @ part.T @ part for part in parts])


def test_a_packed_batch_has_the_work_of_its_own_lengths():
    packings = ((3, 5), (4, 4), (3, 5), (7, 1))

    def loop(model, optimizer, live):
        for lengths in packings:
            ends = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
            model(torch.randn(8, WIDE), cu_seqlens=ends).square().sum().backward()
            optimizer.step()

    seen, live = watched(loop, model=Packed(), every=1)

    def flops(lengths):  # two products a sequence, and two gradients for each
        return 2 * (2 * 8 * WIDE * WIDE + 6 * WIDE * sum(length**2 for length in lengths))

    assert model_flops(seen) == [flops(lengths) for lengths in packings]
    assert live.summary().shapes == 3


class Unpadded(nn.Module):
    """Works on the rows that a mask keeps, or only looks at the mask."""

    def __init__(self, *, keeps):
        super().__init__()
        self.down, self.keeps = nn.Linear(WIDE, 2, bias=False), keeps

    def forward(self, x, mask):
        if mask.all():
            x = x + 1
        return self.down(x[mask] if self.keeps else x)


def masked(model, counts):
    """Records and the run of steps with masks that keep so many of eight rows."""

    def loop(model, optimizer, live):
        for count in counts:
            model(torch.ones(8, WIDE), torch.arange(8) < count).sum().backward()
            optimizer.step()

    seen, live = watched(loop, model=model, every=1)
    return model_flops(seen), live.summary()


def test_rows_that_a_mask_keeps_are_counted_for_each_mask():
    counts = (3, 5, 3, 8, 1, 5)

    flops, run = masked(Unpadded(keeps=True), counts)

    assert flops == [2 * 2 * count * WIDE * 2 for count in counts]
    assert not run.whole.estimated


def test_masks_that_change_no_work_are_soon_left_alone():
    flops, run = masked(Unpadded(keeps=False), [1, 2, 3, 4, 5, 6, 7] * 3)

    assert flops == [2 * 2 * 8 * WIDE * 2] * 21
    assert run.shapes <= 6


class Selecting(nn.Module):
    """Goes on with the rows that a fixed product makes positive."""

    def __init__(self):
        super().__init__()
        self.fixed = nn.Linear(WIDE, 1, bias=False).requires_grad_(False)
        nn.init.ones_(self.fixed.weight)
        self.down = nn.Linear(WIDE, 2, bias=False)

    def forward(self, x):
        return self.down(x[self.fixed(x).squeeze(1) > 0])


def test_steps_whose_work_values_decide_are_labelled_unless_counted_themselves():
    counts = (3, 5, 1, 2)

    def loop(model, optimizer, live):
        for count in counts:
            batch = torch.full((6, WIDE), -1.0)
            batch[:count] = 1.0
            model(batch).sum().backward()
            optimizer.step()

    seen, live = watched(loop, model=Selecting(), every=1)

    intervals = live.summary().intervals
    flops = 2 * (
        6 * WIDE + 2 * 3 * WIDE * 2
    )  # of the first: the product, three rows forward, and the weight's gradient
    assert model_flops(seen) == [flops] * 4
    assert [interval.estimated for interval in intervals] == [0, 1, 1, 1]
    assert "steps estimated" in str(live.summary())
