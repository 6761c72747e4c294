"""Ragged, quantised and oneDNN tensors: whatever plain torch can run, every way to profile can."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import flopsight

WIDE, OUT, HEADS = 8, 2, 2
LENGTHS = (3, 5)
ROWS = sum(LENGTHS)
MACS = ROWS * WIDE * OUT
pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of every one of these tensors


class First(nn.Module):
    """A tensor of any kind, made an ordinary one by `plain`, and one product."""

    def __init__(self, plain):
        super().__init__()
        self.plain = plain
        self.layer = nn.Linear(WIDE, OUT, bias=False)

    def forward(self, x):
        return self.layer(self.plain(x))


def ragged(layout):
    return torch.nested.nested_tensor([torch.randn(length, WIDE) for length in LENGTHS], layout=layout)


KINDS = {
    "strided nested": (lambda x: x, lambda: ragged(torch.strided), len(LENGTHS)),
    "jagged": (lambda x: x, lambda: ragged(torch.jagged), len(LENGTHS)),
    "quantised": (
        torch.dequantize,
        lambda: torch.quantize_per_tensor(torch.randn(ROWS, WIDE), 0.1, 0, torch.qint8),
        ROWS,
    ),
    "oneDNN": (lambda x: x.to_dense(), lambda: torch.randn(ROWS, WIDE).to_mkldnn(), ROWS),
}


@pytest.fixture(params=list(KINDS))
def case(request):
    if request.param == "oneDNN" and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch is built without oneDNN")
    plain, make, samples = KINDS[request.param]
    return First(plain), make(), samples


def figures(profile):
    return profile.macs, profile.batch_size


@pytest.mark.parametrize("on", ["real", "copy", "meta"])
def test_it_is_counted(case, on):
    model, x, samples = case

    assert figures(flopsight.count(model, (x,), on=on)) == (MACS, samples)


def test_it_is_timed(case):
    model, x, samples = case

    assert figures(flopsight.profile(model, (x,), warmup=0, repeats=2)) == (MACS, samples)


def test_it_is_watched_in_a_loop(case):
    model, x, samples = case
    profiler = flopsight.FlopsProfiler(model)

    profiler.start_profile()
    model(x)
    profiler.stop_profile()

    assert figures(profiler.profile) == (MACS, samples)


def test_it_is_watched_step_by_step(case):
    model, x, samples = case

    with flopsight.step_profiler(model, steps=[1]) as window:
        for _ in range(3):
            model(x)
            window.step()

    assert figures(window.profile) == (MACS, samples)


class Attention(nn.Module):
    def forward(self, x):
        heads = x.view(len(LENGTHS), -1, HEADS, WIDE // HEADS).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads)


def test_ragged_attention_counts_each_sequence_with_its_own_length():
    """Scores and their product with the values, each a square of the length times the width."""
    profile = flopsight.count(Attention(), (ragged(torch.jagged),))

    assert profile.macs == sum(length**2 for length in LENGTHS) * 2 * WIDE
    assert profile.coverage.complete


def test_a_ragged_batch_of_products_counts_each_with_its_own_length():
    class Scores(nn.Module):
        def forward(self, x):
            return torch.bmm(x, x.transpose(1, 2))

    profile = flopsight.count(Scores(), (ragged(torch.strided),))

    assert profile.macs == sum(length**2 for length in LENGTHS) * WIDE


def test_a_ragged_buffer_and_a_ragged_input_that_was_written_into_are_put_back():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", ragged(torch.strided))

        def forward(self, x):
            self.seen.mul_(2)
            return x.mul_(3)

    model, x = Writes(), ragged(torch.strided)
    before = [tensor.clone() for tensor in (*model.seen.unbind(), *x.unbind())]

    flopsight.count(model, (x,))

    assert all(map(torch.equal, before, (*model.seen.unbind(), *x.unbind())))


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=["strided", "jagged"])
def test_a_ragged_input_takes_the_bytes_of_its_rows(layout):
    profile = flopsight.count(First(lambda x: x), (ragged(layout),))

    assert profile.root.input_bytes == 4 * ROWS * WIDE
