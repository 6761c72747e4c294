"""Memory on the twin: what dies on real tensors dies there too."""

import pytest
import torch
from torch import nn

import flopsight

ROWS, WIDTH, CODES = 4, 8, 16


class Quantizes(nn.Module):
    """Looks up the nearest code: the graph that led to the choice is gone when the choice is made."""

    def __init__(self, choose):
        super().__init__()
        self.scores, self.codes, self.choose = nn.Linear(WIDTH, CODES), nn.Embedding(CODES, WIDTH), choose

    def forward(self, x):
        return self.codes(self.choose(self.scores(x).relu()))


@pytest.mark.parametrize(
    "choose",
    [lambda scores: scores.argmax(-1), lambda scores: scores.max(-1)[1], lambda scores: scores.topk(1)[1][:, 0]],
    ids=["argmax", "max", "topk"],
)
@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_graph_that_ends_in_a_choice_is_not_kept_for_backward(on, choose):
    profile = flopsight.count(Quantizes(choose), (torch.randn(ROWS, WIDTH),), train=True, on=on)

    indices = 8 * ROWS
    assert profile.activation_bytes == indices, "the lookup keeps its indices, the scores are gone"


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_constant_made_in_a_forward_takes_memory_as_long_as_it_lives(on):
    class Scales(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(WIDTH))

        def forward(self, x):
            for _ in range(3):
                x = x * torch.tensor([2.0] * WIDTH)
            return x * self.weight

    with torch.no_grad():
        run = flopsight.count if on == "meta" else flopsight.profile
        options = {"on": "meta"} if on == "meta" else {"latency": False}
        profile = run(Scales(), (torch.randn(WIDTH),), **options)

    parameter, given, product_before, constant, product = [4 * WIDTH] * 5
    assert profile.peak_bytes == parameter + given + product_before + constant + product
