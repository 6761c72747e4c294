"""Models whose work values steer: routed experts and packed batches, each step against a sum written here."""

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


def test_a_mixture_of_experts_has_the_work_of_one_expert_a_row_wherever_rows_go():
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
