"""Recurrent layers on the twin: the ops, the memory and the workspace that the CPU would use."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import flopsight

STEPS, BATCH, WIDTH, HIDDEN = 6, 3, 8, 16
NETWORKS = {
    "LSTM": nn.LSTM(WIDTH, HIDDEN),
    "LSTM, two layers, batch first": nn.LSTM(WIDTH, HIDDEN, 2, batch_first=True),
    "LSTM, both directions": nn.LSTM(WIDTH, HIDDEN, 2, bidirectional=True),
    "LSTM without bias": nn.LSTM(WIDTH, HIDDEN, bias=False),
    "LSTM with dropout": nn.LSTM(WIDTH, HIDDEN, 2, dropout=0.1),
    "LSTM with projection": nn.LSTM(WIDTH, HIDDEN, proj_size=4),
    "LSTM in double precision": nn.LSTM(WIDTH, HIDDEN).double(),
    "LSTM in half precision": nn.LSTM(WIDTH, HIDDEN).bfloat16(),
    "GRU": nn.GRU(WIDTH, HIDDEN),
    "GRU, both directions": nn.GRU(WIDTH, HIDDEN, 2, batch_first=True, bidirectional=True),
    "RNN": nn.RNN(WIDTH, HIDDEN),
    "RNN with ReLU": nn.RNN(WIDTH, HIDDEN, nonlinearity="relu"),
}


class Outputs(nn.Module):
    """What a network puts out, without its states."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)[0]


def figures(profile):
    costs = [
        getattr(getattr(profile, phase), name)
        for phase in ("forward", "backward")
        for name in ("macs", "flops", "bytes")
    ]
    return *costs, profile.activation_bytes, profile.peak_bytes


@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_costs_and_keeps_the_same_on_meta(name):
    network = NETWORKS[name]
    x = torch.randn(STEPS, BATCH, WIDTH, dtype=network.weight_ih_l0.dtype)

    real, meta = (flopsight.count(Outputs(network), (x,), train=True, on=on) for on in ("real", "meta"))

    assert figures(meta) == figures(real)


@pytest.mark.parametrize("name", NETWORKS)
def test_inference_costs_and_needs_the_same_on_meta(name):
    network = NETWORKS[name].eval()
    x = torch.randn(STEPS, BATCH, WIDTH, dtype=network.weight_ih_l0.dtype)

    with torch.no_grad():
        real = flopsight.profile(Outputs(network), (x,), latency=False)
        meta = flopsight.count(Outputs(network), (x,), on="meta")

    assert figures(meta) == figures(real)


class Packed(nn.Module):
    """A network on sequences of several lengths."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, lengths):
        output, states = self.network(pack_padded_sequence(x, lengths))
        return output.data, states


LENGTHS = (6, 4, 1)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_cost_and_need_the_same_on_meta(kind, bidirectional, train):
    model = Packed(kind(WIDTH, HIDDEN, 2, bidirectional=bidirectional)).train(train)
    given = torch.randn(STEPS, BATCH, WIDTH), torch.tensor(LENGTHS)

    with torch.set_grad_enabled(train):
        real = flopsight.profile(model, given, train=train, latency=False)
        meta = flopsight.count(model, given, train=train, on="meta")

    assert figures(meta) == figures(real)
    gates, directions = len(model.network.weight_ih_l0) // HIDDEN, 1 + bidirectional
    widths = (WIDTH + HIDDEN) + (directions * HIDDEN + HIDDEN)  # of the first layer, and of the second
    assert meta.macs == sum(LENGTHS) * directions * gates * HIDDEN * widths


@pytest.mark.parametrize("on", ["real", "meta"])
def test_a_gru_multiplies_all_its_inputs_at_once(on):
    profile = flopsight.count(Outputs(nn.GRU(WIDTH, HIDDEN)), (torch.randn(STEPS, BATCH, WIDTH),), on=on)

    products = [row for row in profile["network"].ops if row.op == "aten.addmm"]
    assert sum(row.calls for row in products) == 1 + STEPS
    assert profile.macs == STEPS * BATCH * 3 * HIDDEN * (WIDTH + HIDDEN)


def test_a_long_layers_workspace_is_read_off_shorter_ones():
    model, x = Outputs(nn.LSTM(4, 64)), torch.randn(4096, 4, 4)

    real, meta = (flopsight.count(model, (x,), train=True, on=on).activation_bytes for on in ("real", "meta"))

    page, buffers = 4096, 8
    assert abs(meta - real) <= page * buffers, "each buffer begins at a page"
