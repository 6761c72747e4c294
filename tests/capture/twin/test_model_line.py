"""Where a model on meta asks for a value that only data has, the line of its code is named."""

import inspect

import torch
from torch import nn

import flopsight
from flopsight.results.caveats import Assumed


class Looks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        x = self.layer(x)
        return x * 2 if x.sum() > 0 else x


def test_an_assumption_names_the_line_that_asked():
    with torch.device("meta"):
        model, x = Looks(), torch.ones(1, 4)

    profile = flopsight.count(model, x, on="meta")

    lines, first = inspect.getsourcelines(Looks.forward)
    asked = first + next(place for place, line in enumerate(lines) if "sum()" in line)
    assert [doubt.where for doubt in profile.caveats if isinstance(doubt, Assumed)] == [f"test_model_line.py:{asked}"]
