"""Cases that other counters get wrong, each with the arithmetic that says what is right."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence

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
def test_a_linear_layer_multiplies_every_row_of_a_batch_of_sequences(on):
    assert count(nn.Linear(8, 16), torch.ones(4, 10, 8), on=on).macs == 4 * 10 * 8 * 16


@both
def test_a_transposed_convolution_costs_by_its_input(on):
    layer = nn.ConvTranspose2d(3, 5, kernel_size=4, stride=2, padding=1)

    # every input pixel meets every weight; its output is twice as wide and would give four times that
    assert count(layer, torch.ones(2, 3, 8, 8), on=on).macs == 2 * 8 * 8 * 3 * 5 * 4 * 4


@both
def test_padding_that_keeps_the_size_counts_with_an_even_kernel_too(on):
    layer = nn.Conv2d(3, 16, kernel_size=4, padding="same")

    assert count(layer, torch.ones(1, 3, 20, 20), on=on).macs == 20 * 20 * 16 * 3 * 4 * 4 == 307_200


@both
def test_a_convolution_without_a_batch_counts_like_a_batch_of_one(on):
    layer = nn.Conv2d(3, 4, kernel_size=3)

    assert count(layer, torch.ones(3, 10, 10), on=on).macs == 8 * 8 * 4 * 3 * 3 * 3


def test_a_stride_may_be_a_list():
    data, weight = torch.ones(1, 3, 9, 9), torch.ones(4, 3, 3, 3)

    assert macs(lambda: F.conv2d(data, weight, stride=[2, 2])) == 4 * 4 * 4 * 3 * 3 * 3


@both
def test_a_grouped_convolution_sees_only_its_group(on):
    layer = nn.Conv2d(8, 8, kernel_size=3, padding=1, groups=8)
    x = torch.ones(2, 8, 6, 6, requires_grad=True)
    forward = 2 * 6 * 6 * 8 * 1 * 3 * 3

    profile = flopsight.count(layer, (x,), train=True, on=on)

    assert (profile.macs, profile.backward.macs) == (forward, 2 * forward)


def test_lazy_modules_are_counted_once_they_know_their_shape():
    model = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(2))

    profile = count(model, torch.ones(4, 8), on="real")

    assert profile.macs == 4 * 8 * 16 + 4 * 16 * 2


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


def test_einsum_and_the_operator_count_like_the_function():
    a, b = torch.ones(4, 8), torch.ones(8, 16)

    assert macs(torch.matmul, a, b) == macs(lambda a, b: a @ b, a, b) == 4 * 8 * 16
    assert macs(lambda a, b: torch.einsum("ij,jk->ik", a, b), a, b) == 4 * 8 * 16


def test_pointwise_arithmetic_is_flops_however_it_is_written():
    x, w = torch.ones(4, 8), torch.ones(4, 8)

    by_operator = count(Calls(lambda x, w: x * w + x), x, w)
    by_function = count(Calls(lambda x, w: torch.add(torch.mul(x, w), x)), x, w)

    assert by_operator.flops == by_function.flops == 2 * 4 * 8
    assert by_operator.macs == 0


def test_vectors_and_broadcast_matrices_count_what_is_multiplied():
    assert macs(torch.matmul, torch.ones(8), torch.ones(8)) == 8
    assert macs(torch.matmul, torch.ones(4, 8), torch.ones(8)) == 4 * 8 == 32
    assert macs(torch.matmul, torch.ones(2, 3, 4, 8), torch.ones(8, 5)) == 2 * 3 * 4 * 8 * 5 == 960
    assert macs(torch.matmul, torch.ones(2, 1, 4, 8), torch.ones(3, 8, 5)) == 2 * 3 * 4 * 8 * 5


def test_a_complex_product_is_four_real_ones():
    a, b = torch.ones(4, 8, dtype=torch.complex64), torch.ones(8, 5, dtype=torch.complex64)

    assert macs(torch.matmul, a, b) == 4 * (4 * 8 * 5) == 640


# -- attention


HEADS, LENGTH, WIDTH = 4, 6, 8
SCORES_AND_MIX = 2 * (2 * HEADS * LENGTH * LENGTH * WIDTH)
"""A batch of two: queries by keys, then scores by values."""


@both
def test_attention_on_the_cpu_is_not_nothing(on):
    tensors = [torch.ones(2, HEADS, LENGTH, WIDTH) for _ in range(3)]

    assert count(Calls(F.scaled_dot_product_attention), *tensors, on=on).macs == SCORES_AND_MIX


@both
def test_attention_may_be_called_by_keyword(on):
    tensors = {name: torch.ones(2, HEADS, LENGTH, WIDTH) for name in ("query", "key", "value")}

    class Attention(nn.Module):
        def forward(self, **tensors):
            return F.scaled_dot_product_attention(**tensors, is_causal=True)

    profile = count(Attention(), on=on, **tensors)

    assert profile.macs == SCORES_AND_MIX
    assert profile.forward.causal_macs == SCORES_AND_MIX * (LENGTH + 1) // (2 * LENGTH), "j <= i, the diagonal included"


@both
def test_grouped_queries_count_for_every_query_head(on):
    query = torch.ones(2, HEADS, LENGTH, WIDTH)
    few = torch.ones(2, HEADS // 2, LENGTH, WIDTH)

    class Grouped(nn.Module):
        def forward(self, query, key, value):
            return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)

    assert count(Grouped(), query, few, few, on=on).macs == SCORES_AND_MIX


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
def test_an_lstm_counts_its_gates(on):
    profile = count(nn.LSTM(FEATURES, HIDDEN), torch.ones(STEPS, BATCH, FEATURES), on=on)

    assert profile.macs == STEPS * BATCH * GATES


@both
def test_packed_sequences_count_their_steps_and_not_the_padding(on):
    packed = pack_sequence([torch.ones(length, FEATURES) for length in (5, 3, 2)])

    assert count(nn.LSTM(FEATURES, HIDDEN), packed, on=on).macs == (5 + 3 + 2) * GATES


@both
def test_a_model_that_packs_its_sequences_itself_is_counted_too(on):
    class Packs(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(FEATURES, HIDDEN, batch_first=True)

        def forward(self, x, lengths):
            return self.rnn(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[0]

    profile = count(Packs(), torch.ones(3, 5, FEATURES), torch.tensor([2, 5, 3]), on=on)

    assert profile.macs == (5 + 3 + 2) * GATES


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
