"""One traced run: which step of a training it is."""

import torch
from torch import nn

import flopsight


def traced(optimizer, model):
    p = flopsight.profile(
        model, (torch.randn(2, 8),), train=True, optimizer=optimizer, timeline=True, latency=False, warmup=0
    )
    return [span.name for span in p.timeline if span.kind == "op" and span.phase == "optimizer"]


def test_the_traced_step_updates_a_state_that_is_there():
    model = nn.Linear(8, 4)
    optimizer = torch.optim.AdamW(model.parameters())

    ops = traced(optimizer, model)

    assert "aten::sqrt" in ops or "aten::_foreach_sqrt" in ops  # of the second moment
    assert "aten::zeros_like" not in ops  # which would be the first step's
    assert not optimizer.state


def test_a_state_that_was_there_is_as_it_was():
    model = nn.Linear(8, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 8)).sum().backward()
    optimizer.step()
    before = {id(p): {name: value.clone() for name, value in state.items()} for p, state in optimizer.state.items()}

    assert "aten::zeros_like" not in traced(optimizer, model)

    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            assert torch.equal(value, before[id(parameter)][name])
