"""Cases that other counters get wrong and that need more than a number; the plain ones are in tests/peers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_sequence

import flopsight


class Calls(nn.Module):
    """A function of its inputs, as a model."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def count(model, *args, on="real", **kwargs):
    return flopsight.count(model, args, kwargs, on=on)


def macs(function, *args):
    return count(Calls(function), *args).macs


both = pytest.mark.parametrize("on", ["real", "meta"])


# -- layers


@both
def test_a_grouped_convolution_sees_only_its_group(on):
    layer = nn.Conv2d(8, 8, kernel_size=3, padding=1, groups=8)
    x = torch.ones(2, 8, 6, 6, requires_grad=True)
    forward = 2 * 6 * 6 * 8 * 1 * 3 * 3

    profile = flopsight.count(layer, (x,), train=True, on=on)

    assert (profile.macs, profile.backward.macs) == (forward, 2 * forward)


# -- one module in several places


class Thrice(nn.Module):
    def __init__(self):
        super().__init__()
        shared = nn.Linear(8, 8, bias=False)
        self.first, self.second, self.third = (nn.Sequential(shared) for _ in range(3))

    def forward(self, x):
        return self.third(self.second(self.first(x)))


@both
def test_a_module_under_three_parents_counts_once_per_call(on):
    profile = count(Thrice(), torch.ones(4, 8), on=on)

    assert profile.macs == 3 * (4 * 8 * 8)
    assert [profile[parent].macs for parent in ("first", "second", "third")] == [4 * 8 * 8] * 3
    assert profile.params == 8 * 8


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


@both
def test_tied_weights_are_parameters_once_and_work_where_they_multiply(on):
    profile = count(Tied(), torch.zeros(2, 3, dtype=torch.long), on=on)

    assert profile.params == 50 * 8
    assert profile["embedding"].params == profile["head"].params == 50 * 8
    assert profile.macs == profile["head"].macs == 2 * 3 * 8 * 50


# -- products that are written as operators


def test_pointwise_arithmetic_is_flops_however_it_is_written():
    x, w = torch.ones(4, 8), torch.ones(4, 8)

    by_operator = count(Calls(lambda x, w: x * w + x), x, w)
    by_function = count(Calls(lambda x, w: torch.add(torch.mul(x, w), x)), x, w)

    assert by_operator.flops == by_function.flops == 2 * 4 * 8
    assert by_operator.macs == 0


def test_a_complex_product_is_four_real_ones():
    a, b = torch.ones(4, 8, dtype=torch.complex64), torch.ones(8, 5, dtype=torch.complex64)

    assert macs(torch.matmul, a, b) == 4 * (4 * 8 * 5) == 640


# -- attention


HEADS, LENGTH, WIDTH = 4, 6, 8
SCORES_AND_MIX = 2 * (2 * HEADS * LENGTH * LENGTH * WIDTH)
"""A batch of two: queries by keys, then scores by values."""


@both
def test_attention_may_be_called_by_keyword(on):
    tensors = {name: torch.ones(2, HEADS, LENGTH, WIDTH) for name in ("query", "key", "value")}

    class Attention(nn.Module):
        def forward(self, **tensors):
            return F.scaled_dot_product_attention(**tensors, is_causal=True)

    profile = count(Attention(), on=on, **tensors)

    assert profile.macs == SCORES_AND_MIX
    assert profile.forward.causal_macs == SCORES_AND_MIX * (LENGTH + 1) // (2 * LENGTH), "j <= i, the diagonal included"


class SelfAttention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


@both
def test_attention_layers_count_in_inference_as_in_training(on):
    layer = SelfAttention(32, 4, batch_first=True)
    x = torch.ones(2, LENGTH, 32)
    projections = 4 * 2 * LENGTH * 32 * 32

    trained = count(layer, x, on=on)
    with torch.no_grad():
        fused = count(layer.eval(), x, on=on)

    assert trained.macs == fused.macs == projections + 2 * 2 * LENGTH * LENGTH * 32


def test_a_fused_encoder_layer_counts_and_its_submodules_show_as_not_called():
    layer = nn.TransformerEncoderLayer(32, 4, dim_feedforward=64, batch_first=True).eval()
    x = torch.ones(2, LENGTH, 32)
    tokens = 2 * LENGTH

    with torch.no_grad():
        profile = count(layer, x)

    assert profile.macs == tokens * (4 * 32 * 32 + 2 * 32 * 64) + 2 * 2 * LENGTH * LENGTH * 32
    assert not profile["linear1"].called
    assert not profile.coverage.unknown


def test_a_padded_batch_in_a_fused_encoder_counts_the_tokens_that_torch_multiplies():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 1).eval()
    padding = torch.arange(8) >= torch.tensor([[8], [5]])
    tokens = 8 + 5

    with torch.no_grad():
        profile = count(encoder, torch.ones(2, 8, 32), src_key_padding_mask=padding)

    # torch drops the padding before the layers, and only attention itself pads again
    assert profile.macs == tokens * (4 * 32 * 32 + 2 * 32 * 64) + 2 * 2 * 8 * 8 * 32
    assert not profile.coverage.unknown


# -- recurrent layers


STEPS, BATCH, FEATURES, HIDDEN = 5, 3, 8, 16
GATES = 4 * HIDDEN * (FEATURES + HIDDEN)
"""What one step of one sample multiplies in an LSTM."""


@both
def test_packed_sequences_count_their_steps_and_not_the_padding(on):
    packed = pack_sequence([torch.ones(length, FEATURES) for length in (5, 3, 2)])

    assert count(nn.LSTM(FEATURES, HIDDEN), packed, on=on).macs == (5 + 3 + 2) * GATES


# -- what wraps a model


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = nn.Linear(8, 16)
        self.scripted = torch.jit.script(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2)))

    def forward(self, x):
        return self.scripted(self.plain(x))


@both
def test_what_a_scripted_module_multiplies_is_counted(on):
    profile = count(Halves(), torch.ones(4, 8), on=on)

    assert profile["plain"].macs == 4 * 8 * 16
    assert profile["scripted"].macs == 4 * 16 * 16 + 4 * 16 * 2
    assert not profile.coverage.unknown


def test_a_compiled_model_counts_right_again_and_again_and_is_compiled_afterwards():
    compilations = []

    def backend(graph, _example):
        compilations.append(graph)
        return graph.forward

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    compiled = torch.compile(model, backend=backend)
    x = torch.ones(4, 8)

    counts = [count(compiled, x).macs for _ in range(2)]

    assert counts == [4 * 8 * 16 + 4 * 16 * 2] * 2
    assert not compilations, "counting compiles nothing"
    compiled(x)
    compiled(x)
    assert len(compilations) == 1
    torch._dynamo.reset()


def test_after_an_exception_a_good_model_counts_as_in_a_fresh_process(no_trace):
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            self.layer(x)
            raise ValueError("halfway")

    good, bad = nn.Linear(8, 16), Fails()

    with no_trace(bad), pytest.raises(ValueError, match="halfway"):
        count(bad, torch.ones(4, 8))

    assert count(good, torch.ones(4, 8)).macs == 4 * 8 * 16


def test_two_counts_at_once_are_two_equal_counts():
    layer = nn.Linear(8, 16)

    with flopsight.recording(layer) as outer, flopsight.recording(layer) as inner:
        layer(torch.ones(4, 8))

    assert outer.profile.macs == inner.profile.macs == 4 * 8 * 16
