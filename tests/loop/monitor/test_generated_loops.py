"""Loops made at random, with steps that use other outputs than the step before: each step against torch's own counter."""

from random import Random

import pytest
import torch
from loop.monitor.training import sgd
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import flopsight

WIDE, STEPS = 6, 12


class Trunk(nn.Module):
    """Two outputs of equal shape that cost different work."""

    def __init__(self):
        super().__init__()
        self.trunk, self.near = nn.Linear(WIDE, WIDE, bias=False), nn.Linear(WIDE, WIDE, bias=False)
        self.far = nn.Sequential(nn.Linear(WIDE, 16, bias=False), nn.Linear(16, WIDE, bias=False))

    def forward(self, x):
        hidden = self.trunk(x)
        return self.near(hidden), self.far(hidden)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDE, 3, bias=False), nn.Linear(WIDE, 5, bias=False)

    def forward(self, x):
        return self.first(x), self.second(x)


def made_steps(seed):
    """A few kinds of steps, each a list of calls with their losses, in an order that a loop may have."""
    random = Random(seed)
    some = ("near", "far", "both", "near twice")
    kinds = [
        [
            (random.choice((2, 2, 3)), random.choice(some), random.choice(some), random.random() < 0.3)
            for _ in range(calls)
        ]
        for calls in random.choices((1, 1, 2), k=3)
    ]
    return [random.choice(kinds) for _ in range(STEPS)]


def picked(which, near, far):
    return {"near": [near], "far": [far], "both": [near, far], "near twice": [near, near]}[which]


def run_step(trunk, head, optimizer, parts):
    for rows, passed, used, cut in parts:
        given = sum(picked(passed, *trunk(torch.ones(rows, WIDE))))
        first, second = head(given.detach() if cut else given)
        sum(tensor.sum() for tensor in picked(used, first, second)).backward()
    optimizer.step()


@pytest.mark.parametrize("seed", range(30))
def test_every_step_has_its_own_work_or_says_that_it_is_not_known(seed):
    both = nn.ModuleList([Trunk(), Head()])
    steps, optimizer = made_steps(seed), sgd(both)
    with flopsight.monitor(list(both), optimizer, every=1) as live:
        for parts in steps:
            run_step(*both, optimizer, parts)

    plain = []
    for parts in steps:
        with FlopCounterMode(display=False) as counter:
            run_step(*both, optimizer, parts)
        plain.append(counter.get_total_flops())
    intervals = live.summary().intervals
    known = [at for at, one in enumerate(intervals) if one.total_model_flops is not None and not one.estimated]

    assert len(intervals) == STEPS
    assert [intervals[at].total_model_flops for at in known] == [plain[at] for at in known]
    assert len(known) >= STEPS // 2
