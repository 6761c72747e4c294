"""Rows of several lengths on meta: what is saved, alive and done is as on real tensors."""

import pytest
import torch
from torch import nn
from torch.nested import nested_tensor_from_jagged
from torch.nn import functional

import flopsight
from flopsight.results.caveats import NoTwin

LENGTHS, WIDTH, FLOAT = (5, 4), 8, 4
ROWS = sum(LENGTHS)
VALUES, ENDS = FLOAT * ROWS * WIDTH, 8 * (1 + len(LENGTHS))


class Ragged(nn.Module):
    """Takes its batch apart into sequences."""

    def __init__(self, function):
        super().__init__()
        self.up, self.function = nn.Linear(WIDTH, WIDTH, bias=False), function

    def forward(self, rows):
        ends = torch.tensor([0, LENGTHS[0], ROWS], device=rows.device)
        sequences = nested_tensor_from_jagged(rows, ends, min_seqlen=min(LENGTHS), max_seqlen=max(LENGTHS))
        return self.function(self.up(sequences))


def figures(profile):
    """Every figure of every row, and the peak."""
    rows = {
        node.path: (node.own.forward, node.own.backward, node.own_activation_bytes, node.own_peak_bytes)
        for node in profile.walk()
    }
    return rows, profile.peak_bytes


FUNCTIONS = {
    "relu": (torch.relu, VALUES),
    "gelu": (functional.gelu, 2 * VALUES),
    "square": (torch.square, 2 * VALUES),
    "values of gelu": (lambda rows: functional.gelu(rows).values(), 2 * VALUES),
}
"""What is kept: what the function needs, and its result for the sum or for the values, if that is another tensor."""


@pytest.mark.parametrize(("function", "kept"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_training_step_on_rows_of_several_lengths_is_the_same_on_meta(function, kept):
    model, rows = Ragged(function), torch.randn(ROWS, WIDTH)
    model(rows)  # with the first view as a jagged tensor in a process, torch makes an example that it keeps

    real, twin = (flopsight.count(model, (rows,), train=True, on=on) for on in ("real", "meta"))
    there = flopsight.count(model.to("meta"), (rows.to("meta"),), train=True)

    assert not any(isinstance(doubt, NoTwin) for doubt in twin.caveats)
    assert figures(real) == figures(twin) == figures(there)
    assert real.activation_bytes == kept + ENDS
