"""Mixtures of experts on a twin: a router that knows nothing is balanced, and the experts cost what they cost."""

import pytest
import torch
from expert_models import CHOICES, EXPERTS, HIDDEN, TOKENS, WIDTH, Grouped, Loop, Sliced, Top1
from releases import since
from torch import nn

import flopsight
from flopsight.results.caveats import Assumed

ROUTER = TOKENS * WIDTH * EXPERTS
CHOSEN = TOKENS * CHOICES * 2 * WIDTH * HIDDEN
"""Every token in two experts of two layers."""
X = torch.randn(TOKENS, WIDTH)
grouped = pytest.param(Grouped, marks=since((2, 9), "grouped product on a CPU"))


@pytest.mark.parametrize("kind", [Loop, Sliced, grouped])
def test_the_experts_cost_what_the_tokens_cost_however_they_are_chosen(kind):
    profiles = [flopsight.count(kind(), (X,), train=True, on=on) for on in ("real", "meta")]

    assert [profile.macs for profile in profiles] == [ROUTER + CHOSEN] * 2
    assert len({profile.backward.macs for profile in profiles}) == 1
    assert not profiles[1].coverage.unknown


@pytest.mark.parametrize(("kind", "choices"), [(Loop, CHOICES), (Top1, 1)])
def test_on_the_twin_every_expert_is_chosen_equally_often(kind, choices):
    profile = flopsight.count(kind(), (X,), on="meta")

    each = TOKENS * choices // EXPERTS * 2 * WIDTH * HIDDEN
    assert [profile[f"experts.{i}"].macs for i in range(EXPERTS)] == [each] * EXPERTS
    assert [doubt for doubt in profile.caveats if isinstance(doubt, Assumed)]
    assert "every expert equally often" in str(profile.caveats[0])


def test_a_model_without_any_data_is_balanced_too():
    model = Loop().to("meta")

    assert flopsight.count(model, (X.to("meta"),)).macs == ROUTER + CHOSEN


def test_a_choice_along_another_dimension_is_a_choice_there():
    """Experts choose tokens: each takes the same number, and no token twice."""

    class ExpertsChoose(nn.Module):
        def __init__(self):
            super().__init__()
            self.router, self.layer = nn.Linear(WIDTH, EXPERTS), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            chosen = self.router(x).topk(4, dim=0).indices
            return self.layer(x[chosen[:, 0].unique()])

    profile = flopsight.count(ExpertsChoose(), (X[:8],), on="meta")

    assert profile["layer"].macs == 4 * WIDTH * WIDTH


def moved_in_products(profile):
    """Forward bytes of all matrix products but the router's."""
    nodes = [node for node in profile.walk() if node.name != "router"]
    return sum(row.cost.bytes for node in nodes for row in node.ops if row.kind == "matrix" and row.phase == "forward")


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize("tokens", [1, TOKENS])
@pytest.mark.parametrize("kind", [Loop, Sliced, grouped])
def test_the_weights_of_the_experts_that_were_chosen_are_read_and_no_others(kind, tokens, on):
    """One token is in 2 of 4 experts; 24 random ones are in all of them."""
    torch.manual_seed(0)
    profile = flopsight.count(kind(), (X[:tokens],), on=on)

    chosen = min(EXPERTS, tokens * CHOICES)
    rows = tokens * CHOICES * 2 * (WIDTH + HIDDEN)
    biases = chosen * (WIDTH + HIDDEN) if kind is Loop else 0
    ends = 2 * EXPERTS if kind is Grouped else 0
    assert moved_in_products(profile) == 4 * (rows + chosen * 2 * WIDTH * HIDDEN + biases + ends)


@since((2, 9), "grouped product on a CPU")
def test_a_grouped_product_on_the_twin_says_what_it_assumes():
    said = [str(doubt) for doubt in flopsight.count(Grouped(), (X,), on="meta").caveats]

    assert any("every expert equally often" in text for text in said)
    assert not flopsight.count(Grouped(), (X,)).caveats


@since((2, 9), "grouped product on a CPU")
def test_ends_of_groups_that_are_known_on_the_twin_are_used():
    """Three rows in one group, two behind it."""

    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN))

        def forward(self, x):
            return torch._grouped_mm(x, self.up, offs=torch.tensor([0, 3, 3, 3], dtype=torch.int32))

    profile = flopsight.count(Fixed(), (X[:5],), on="meta")

    assert profile.macs == 3 * WIDTH * HIDDEN
    assert moved_in_products(profile) == 4 * (3 * WIDTH + WIDTH * HIDDEN + 3 * HIDDEN + EXPERTS)
    assert not profile.caveats
