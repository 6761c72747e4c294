"""Memory on the twin: what dies on real tensors dies there too."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import flopsight
from flopsight.results.caveats import NoTwin

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


NUMBERS = [
    ((slice(None), [0, 2]), 8 * 2, ROWS * 2),
    ((slice(None), range(2)), 8 * 2, ROWS * 2),
    ((slice(None), [[0, 1], [2, 3]]), 8 * 4, ROWS * 4),
    (([0, 1, 2], [2, 1, 0]), 2 * 8 * 3, 3),
    ([0, 1], 8 * 2, 2 * WIDTH),
    ([True, False] * (ROWS // 2), ROWS, ROWS // 2 * WIDTH),
]
"""An index, the bytes of the tensors that torch makes of its numbers, and how many elements it selects."""


@pytest.mark.parametrize(("index", "numbers", "selected"), NUMBERS, ids=[str(index) for index, _, _ in NUMBERS])
@pytest.mark.parametrize("on", ["real", "meta"])
def test_numbers_in_an_index_take_memory_while_they_select(on, index, numbers, selected):
    class Selects(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(WIDTH, WIDTH, bias=False)

        def forward(self, x):
            return self.up(x)[index]

    with torch.no_grad():
        run, options = (flopsight.count, {"on": "meta"}) if on == "meta" else (flopsight.profile, {"latency": False})
        profile = run(Selects(), (torch.randn(ROWS, WIDTH),), **options)

    weight, given, product = 4 * WIDTH * WIDTH, 4 * ROWS * WIDTH, 4 * ROWS * WIDTH
    assert profile.peak_bytes == weight + given + product + numbers + 4 * selected


def test_numbers_in_an_index_are_kept_for_backward_and_alive_at_the_peak():
    class Selects(nn.Linear):
        def forward(self, x):
            return super().forward(x)[:, [0, 2] * WIDTH]

    real, meta = peak(Selects(WIDTH, WIDTH, bias=False), (torch.randn(16 * ROWS, WIDTH),))

    assert real == meta


def peak(model, args, loss=None):
    """On real tensors and on meta."""
    real, meta = (flopsight.count(model, args, train=True, loss=loss, on=on) for on in ("real", "meta"))
    assert not any(isinstance(doubt, NoTwin) for doubt in meta.caveats)
    return real.peak_bytes, meta.peak_bytes


def test_a_batch_that_is_a_part_of_a_larger_tensor_keeps_all_of_that_alive():
    data, model = torch.randn(100, WIDTH), nn.Linear(WIDTH, 1, bias=False)

    output, loss, gradients = 4 * ROWS, 4, 4 * (1 + WIDTH)
    assert peak(model, (data[:ROWS],)) == (4 * (100 * WIDTH + WIDTH) + output + loss + gradients,) * 2


def test_inputs_that_share_their_memory_take_it_once():
    class Gates(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(WIDTH))

        def forward(self, x, y, z):
            return x * self.weight + y * z

    parts = torch.randn(ROWS, 3 * WIDTH).chunk(3, 1)
    apart = tuple(part.clone() for part in parts)

    real, meta = peak(Gates(), parts)

    assert real == meta
    assert peak(Gates(), apart) == (real, meta), "three parts of one tensor are as much as three tensors"


@pytest.mark.parametrize("loss", [functional.mse_loss, functional.smooth_l1_loss, functional.soft_margin_loss])
def test_a_loss_takes_the_memory_of_what_it_adds_up(loss):
    """The CPU works out every element's loss and shrinks the tensor to one number, not its memory."""
    target = torch.ones(ROWS, WIDTH)
    assert loss(target, target).untyped_storage().nbytes() == target.nbytes

    real, meta = peak(nn.Linear(WIDTH, WIDTH), (torch.randn(ROWS, WIDTH),), lambda output: loss(output, target))

    assert real == meta
