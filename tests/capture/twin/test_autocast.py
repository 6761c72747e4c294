"""Autocast around a twin and inside its forward: the casts that the target device would make, and no others."""

import pytest
import torch
from torch import nn

import flopsight
from flopsight.capture.hooks import internals

ROWS, WIDTH = 4, 8
HALF, SINGLE = 2, 4
GIVEN, WEIGHT, BIAS = ROWS * WIDTH, WIDTH * WIDTH, WIDTH


class Cast(nn.Module):
    """A model whose forward casts."""

    def __init__(self, *layers, enabled=True):
        super().__init__()
        self.layers, self.enabled = nn.Sequential(*layers), enabled

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.enabled):
            made = self.layers(x)
        return made[0] if isinstance(made, tuple) else made


def figures(profile):
    costs = [
        getattr(getattr(profile, phase), name)
        for phase in ("forward", "backward")
        for name in ("macs", "flops", "bytes")
    ]
    return *costs, profile.activation_bytes, profile.peak_bytes


def in_inference(model, on):
    with torch.no_grad():
        return flopsight.count(model, (torch.randn(ROWS, WIDTH),), on=on)


@pytest.mark.parametrize("on", ["real", "meta"])
def test_operands_are_cast_once_and_the_product_runs_in_half_precision(on):
    profile = in_inference(Cast(nn.Linear(WIDTH, WIDTH)), on)

    casts = (GIVEN + WEIGHT + BIAS) * (SINGLE + HALF)
    product = (GIVEN + WEIGHT + BIAS + GIVEN) * HALF
    assert profile.forward.bytes == casts + product
    assert profile.macs == ROWS * WIDTH * WIDTH


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_weight_that_is_trained_is_cast_once_a_block(on):
    shared = nn.Linear(WIDTH, WIDTH, bias=False)

    profile = flopsight.count(Cast(shared, shared), (torch.randn(ROWS, WIDTH),), train=True, on=on)

    casts = (GIVEN + WEIGHT) * (SINGLE + HALF)
    products = 2 * (GIVEN + WEIGHT + GIVEN) * HALF
    assert profile["layers.0"].forward.bytes == casts + products


@pytest.mark.parametrize("on", ["real", "meta"])
def test_where_autocast_is_off_nothing_is_cast(on):
    with torch.autocast("cpu", torch.bfloat16):
        profile = in_inference(Cast(nn.Linear(WIDTH, WIDTH), enabled=False), on)

    assert profile.forward.bytes == (GIVEN + WEIGHT + BIAS + GIVEN) * SINGLE


class SelfAttention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


MODELS = {
    "convolutions": (nn.Conv1d(ROWS, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 4, 3)),
    "an encoder layer": (nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True),),
    "attention": (SelfAttention(WIDTH, 2, batch_first=True),),
    "an LSTM": (nn.LSTM(WIDTH, 16),),
    "a GRU": (nn.GRU(WIDTH, 16),),
    "softmax, norm and softplus": (nn.Linear(WIDTH, WIDTH), nn.Softmax(-1), nn.LayerNorm(WIDTH), nn.Softplus()),
}


def has_half_lstm():
    """Whether oneDNN has the layer to which autocast sends an LSTM on this CPU."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            nn.LSTM(1, 1)(torch.zeros(1, 1, 1))
    except RuntimeError:
        return False
    return True


needs_half_lstm = pytest.mark.skipif(
    not has_half_lstm(), reason="torch has no bfloat16 LSTM for a CPU without AVX-512; the next test runs one by steps"
)


def cast_on_both(name):
    x = torch.randn(2, ROWS, WIDTH)
    return (flopsight.count(Cast(*MODELS[name]), (x,), train=True, on=on) for on in ("real", "meta"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[needs_half_lstm] if name == "an LSTM" else []) for name in MODELS]
)
def test_a_training_step_that_casts_costs_and_keeps_the_same_on_meta(name):
    real, meta = cast_on_both(name)

    assert figures(meta) == figures(real)
    assert not meta.caveats


def test_an_lstm_that_casts_and_runs_by_steps_costs_and_keeps_the_same_on_meta():
    with torch.backends.mkldnn.flags(enabled=False):
        real, meta = cast_on_both("an LSTM")

    assert figures(meta) == figures(real)
    assert meta.macs == 2 * ROWS * 4 * 16 * (WIDTH + 16)  # four gates of 16 a row and step, from input and state
    assert not meta.caveats


def test_nothing_of_it_stays():
    before = len(torch._C._dispatch_get_registrations_for_dispatch_key(internals.SPARE_AUTOCAST))

    in_inference(Cast(nn.Linear(WIDTH, WIDTH)), "meta")

    assert len(torch._C._dispatch_get_registrations_for_dispatch_key(internals.SPARE_AUTOCAST)) == before
    assert not torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.AutocastIPU)
    assert torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.AutocastIPU)


class MixedAttention(nn.Module):
    """Its values come in single precision, its queries and keys from a layer that autocast runs in half."""

    def __init__(self):
        super().__init__()
        self.queries = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        queries = self.queries(x)
        return nn.functional.scaled_dot_product_attention(queries, queries, x)


@pytest.mark.parametrize("shape", [(2, ROWS, WIDTH), (2, 1, ROWS, WIDTH)], ids=["by products", "fused"])
def test_operands_of_two_precisions_are_cast_as_autocast_does_and_not_as_the_op_does_afterwards(shape):
    x = torch.randn(shape)

    real, meta = (flopsight.count(Cast(MixedAttention()), (x,), train=True, on=on) for on in ("real", "meta"))

    assert figures(meta) == figures(real)
    assert not meta.caveats


@pytest.mark.parametrize("on", ["real", "meta"])
def test_an_autocast_around_two_counts_keeps_no_weights_of_the_first(on):
    model, x = nn.Linear(WIDTH, WIDTH, bias=False), torch.randn(ROWS, WIDTH)

    with torch.autocast("cpu", torch.bfloat16):
        first, second = (flopsight.count(model, (x,), train=True, on=on) for _ in range(2))

    casts, product = (GIVEN + WEIGHT) * (SINGLE + HALF), (GIVEN + WEIGHT + GIVEN) * HALF
    assert first[""].own.forward.bytes == second[""].own.forward.bytes == casts + product
