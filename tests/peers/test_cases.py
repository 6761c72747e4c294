"""Our own counts of every case that other counters are asked, on real tensors and on meta."""

from contextlib import nullcontext

import pytest
import torch
from peers.cases import CASES, FORWARD, TRAINING

import flopsight

LARGE = [name for name in CASES if name.removeprefix("training: ").startswith(("AlexNet", "ResNet", "BERT", "GPT"))]
"""Built on meta: drawing their weights would take longer than all the other cases."""


def counted(name, on):
    case = CASES[name]
    with torch.device("meta") if name in LARGE else nullcontext(), torch.set_grad_enabled(not case.inference):
        model = case.build().train(not case.inference)
        args, kwargs = case.args(), dict(case.kwargs())
        p = flopsight.count(model, args, kwargs, train=name in TRAINING, on=on)
    return p.forward.macs + p.backward.macs + p.recompute.macs


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize("name", [name for name in CASES if name not in LARGE])
def test_a_count_is_one_of_the_numbers_that_arithmetic_gives(name, on):
    assert counted(name, on) in CASES[name].answers


@pytest.mark.parametrize("name", LARGE)
def test_a_large_model_counts_as_arithmetic_says(name):
    assert counted(name, "meta") in CASES[name].answers


def test_there_are_as_many_cases_as_the_page_promises():
    assert len(FORWARD) >= 60
    assert len(TRAINING) >= 20
    assert len(CASES) == len(FORWARD) + len(TRAINING)
