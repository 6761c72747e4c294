"""How many parameters one token passes, and how many bytes of them a call reads, by arithmetic on small mixtures."""

import pytest
import torch
from expert_models import (
    CHOICES,
    EXPERTS,
    HIDDEN,
    TOKENS,
    WIDTH,
    Dense,
    Grouped,
    Hashed,
    Loop,
    Permuted,
    Picked,
    Sliced,
    Top1,
)
from releases import since
from torch import nn

import flopsight
from flopsight.results.caveats import UnknownRouting

ROUTER = WIDTH * EXPERTS + EXPERTS
STACKED = 2 * WIDTH * HIDDEN
"""Weights of one expert; those of `Loop` and `Top1` have biases too."""
LISTED = STACKED + WIDTH + HIDDEN
FLOAT = 4
grouped = [
    pytest.param(kind, CHOICES, STACKED, marks=since((2, 9), "grouped product on a CPU"))
    for kind in (Grouped, Permuted, Hashed)
]
MIXTURES = [
    (Loop, CHOICES, LISTED),
    (Top1, 1, LISTED),
    (Sliced, CHOICES, STACKED),
    (Picked, CHOICES, STACKED),
    *grouped,
]


def tokens(number):
    torch.manual_seed(0)
    return torch.randn(number, WIDTH)


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize("number", [1, 5, TOKENS])
@pytest.mark.parametrize(("kind", "choices", "expert"), MIXTURES)
def test_one_token_passes_the_router_and_as_many_experts_as_it_chooses(kind, choices, expert, number, on):
    profile = flopsight.count(kind(), (tokens(number),), on=on)

    assert profile.params == ROUTER + EXPERTS * expert
    assert profile.active_params == ROUTER + choices * expert
    assert not [doubt for doubt in profile.caveats if isinstance(doubt, UnknownRouting)]


def test_many_calls_of_different_sizes_are_the_same_mixture():
    """A prompt, then one token after another."""
    model = Loop()

    with flopsight.recording(model) as r:
        for number in (TOKENS, 1, 1, 3):
            model(tokens(number))

    assert r.profile.active_params == ROUTER + CHOICES * LISTED
    assert r.profile.root.calls == 4


def test_a_training_step_counts_the_forward_only():
    assert flopsight.count(Sliced(), (tokens(TOKENS),), train=True).active_params == ROUTER + CHOICES * STACKED


@pytest.mark.parametrize("kind", [nn.Linear, nn.Conv1d, Dense])
def test_what_every_token_passes_is_all_active(kind):
    inputs = {nn.Linear: (2, 4), nn.Conv1d: (2, 4, 9), Dense: (TOKENS, WIDTH)}[kind]
    model = Dense() if kind is Dense else kind(4, 3) if kind is nn.Linear else kind(4, 3, 2)

    profile = flopsight.count(model, (torch.randn(inputs),))

    assert profile.active_params == profile.params > 0


def test_a_stack_of_weights_without_a_router_is_not_a_mixture():
    """Four matrices in one parameter, each for a part of the rows, and nobody chose."""

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.Parameter(torch.randn(4, WIDTH, WIDTH))

        def forward(self, x):
            return torch.cat([rows @ weight for rows, weight in zip(x.chunk(4), self.weights, strict=True)])

    profile = flopsight.count(Parts(), (tokens(8),))

    assert profile.active_params == profile.params == 4 * WIDTH * WIDTH


def test_equal_layers_beside_a_choice_of_another_size_are_not_experts():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

        def forward(self, x):
            best = x.topk(2, dim=-1).values  # among 8 numbers, not among 3 heads
            return sum(head(x[: 2 + i]).sum() for i, head in enumerate(self.heads)) + best.sum()

    profile = flopsight.count(Heads(), (tokens(8),))

    assert profile.active_params == profile.params


@since((2, 9), "grouped product on a CPU")
def test_a_grouped_product_whose_tokens_nobody_counted_says_so():
    """Rows come from a buffer: neither a router nor an input says how many tokens there are."""

    class Blind(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN))
            self.register_buffer("rows", torch.randn(6, WIDTH))

        def forward(self, ends):
            return torch._grouped_mm(self.rows, self.up, offs=ends)

    profile = flopsight.count(Blind(), (torch.tensor([1, 2, 4, 6], dtype=torch.int32),))

    assert profile.active_params is None
    assert "Active parameters are not known: it was not seen for how many tokens" in str(profile.caveats[0])


@since((2, 9), "grouped product on a CPU")
def test_weights_that_are_no_parameters_say_so():
    """As under wrappers that keep all parameters in one flat tensor."""

    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.flat = nn.Parameter(torch.randn(EXPERTS * WIDTH * HIDDEN))

        def forward(self, x):
            return torch._grouped_mm(
                x, self.flat.view(EXPERTS, WIDTH, HIDDEN), offs=torch.tensor([1, 1, 3, 3], dtype=torch.int32)
            )

    profile = flopsight.count(Flat(), (tokens(3),))

    assert profile.active_params is None
    assert "not parameters of the model as it stands" in str(profile.caveats[0])


def test_a_module_of_the_model_has_the_figure_too():
    profile = flopsight.count(Loop(), (tokens(TOKENS),), on="meta")

    assert profile["router"].active_params == ROUTER
    assert profile["experts"].active_params == CHOICES * LISTED
    assert profile["experts.0"].active_params == CHOICES * LISTED // EXPERTS  # the mean over the tokens


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize(("kind", "choices", "expert"), MIXTURES[:-1])
def test_a_call_must_move_the_experts_that_were_chosen_and_no_others(kind, choices, expert, on):
    profile = flopsight.count(kind(), (tokens(1),), on=on)

    ends = profile.root.input_bytes + profile.root.output_bytes
    assert profile.root.compulsory_bytes == ends + FLOAT * (ROUTER + choices * expert)


def test_a_model_that_runs_every_expert_must_move_all():
    profile = flopsight.count(Dense(), (tokens(1),))

    assert profile.root.read_param_bytes == FLOAT * (ROUTER + EXPERTS * STACKED)


def test_a_lookup_must_move_the_rows_that_it_reads():
    """8 ids of 8 bytes, 8 rows of 64 numbers read and written: 4,160 of the 12.8 MB of the table."""
    profile = flopsight.count(nn.Embedding(50_000, 64), (torch.arange(8),))

    assert profile.root.compulsory_bytes == 8 * 8 + 2 * 8 * 64 * FLOAT
    assert profile.root.param_bytes == 50_000 * 64 * FLOAT


def test_a_lookup_reads_no_more_rows_than_the_table_has():
    profile = flopsight.count(nn.Embedding(4, 16), (torch.zeros(100, dtype=torch.int64),))

    assert profile.root.read_param_bytes == 4 * 16 * FLOAT


@pytest.mark.parametrize("on", ["real", "meta"])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_bag_must_move_the_rows_that_it_adds_up(mode, on):
    profile = flopsight.count(nn.EmbeddingBag(1000, 16, mode=mode), (torch.arange(6).view(2, 3),), on=on)

    assert profile.root.read_param_bytes == 6 * 16 * FLOAT


def test_a_table_that_is_looked_up_often_is_read_once_a_call():
    model = nn.Embedding(1000, 16)

    with flopsight.recording(model) as r:
        for _ in range(5):
            model(torch.arange(8))

    assert r.profile.root.read_param_bytes == 8 * 16 * FLOAT


class Language(nn.Module):
    def __init__(self, *, tied, by_module=True):
        super().__init__()
        self.embed = nn.Embedding(1000, 16)
        self.head = nn.Linear(16, 1000, bias=False)
        self.by_module = by_module
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        made = self.embed(ids)
        return self.head(made) if self.by_module else made @ self.embed.weight.t()


@pytest.mark.parametrize(("options", "tables"), [({"tied": False}, 1), ({"tied": True}, 1)])
def test_a_table_that_is_the_head_too_is_read_whole(options, tables):
    profile = flopsight.count(Language(**options), (torch.arange(8),))

    looked_up = 0 if options["tied"] else 8 * 16
    assert profile.root.read_param_bytes == FLOAT * (tables * 1000 * 16 + looked_up)


def test_a_table_that_the_model_multiplies_with_by_hand_is_read_whole():
    profile = flopsight.count(Language(tied=True, by_module=False), (torch.arange(8),))

    assert profile.root.read_param_bytes == FLOAT * 1000 * 16


def test_the_figure_is_saved_and_loaded(tmp_path):
    profile = flopsight.count(Loop(), (tokens(5),))

    loaded = flopsight.load(profile.save(tmp_path / "p.json"))

    assert loaded == profile
    assert loaded.active_params == ROUTER + CHOICES * LISTED
    assert loaded.root.compulsory_bytes == profile.root.compulsory_bytes
