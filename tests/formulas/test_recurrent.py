"""Recurrent layers: against loops over steps and sequences, and against torch's unfused path op by op."""

import numpy as np
import pytest
import torch
from formulas.calls import call, calls, cost, handmade, tensor, total
from formulas.naive import Tally
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_sequence

few = settings(max_examples=20)
size = st.integers(1, 3)


def layers_of(net):
    """The weights of each direction of each layer, as arrays."""
    directions = 2 if net.bidirectional else 1
    rows = [[w.detach().double().numpy() for w in weights] for weights in net.all_weights]
    return [rows[i : i + directions] for i in range(0, len(rows), directions)]


def numbers(tally, net, sequences):
    """Run a network by loops."""
    width = getattr(net, "proj_size", 0) or net.hidden_size
    zeros = (np.zeros(width), np.zeros(net.hidden_size)) if net.mode == "LSTM" else (np.zeros(width),)
    cell = {"LSTM": tally.lstm_cell, "GRU": tally.gru_cell, "RNN_TANH": tally.tanh_cell}[net.mode]
    return tally.recurrent(cell, [list(rows.double().numpy()) for rows in sequences], layers_of(net), zeros)


@few
@given(
    st.sampled_from([nn.LSTM, nn.GRU, nn.RNN]), size, size, st.integers(1, 2), st.booleans(), st.booleans(), st.data()
)
def test_a_network_counts_every_scalar_product_of_valid_steps(kind, width, hidden, layers, both, projected, data):
    """Sequences of different lengths in one pack: each is multiplied as far as it goes, padding never."""
    projection = {"proj_size": hidden} if kind is nn.LSTM and projected else {}
    hidden += 1
    net = kind(width, hidden, layers, bidirectional=both, **projection).double()
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    sequences = [torch.randn(length, width, dtype=torch.float64) for length in lengths]
    tally = Tally()
    expected = numbers(tally, net, sequences)
    packed = pack_sequence(sequences, enforce_sorted=False)
    op = {nn.LSTM: "aten.lstm", nn.GRU: "aten.gru", nn.RNN: "aten.rnn_tanh"}[kind]

    with torch.inference_mode():
        result, found = nn.utils.rnn.pad_packed_sequence(net(packed)[0], batch_first=True)
        whole = call(lambda: net(packed), op)
    parts = calls(lambda: net(packed))

    for row, length, numbers_of_row in zip(result, found, expected, strict=True):
        assert np.allclose(row[:length], numbers_of_row)
    assert whole.overload == "data"
    assert cost(whole).macs == tally.products
    assert total(parts)[0] == tally.products


@few
@given(
    st.sampled_from([nn.LSTM, nn.GRU, nn.RNN]),
    size,
    size,
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_the_undecomposed_op_costs_what_the_meta_device_runs(kind, width, hidden, layers, both, biased, first):
    """The meta device runs a network as products and pointwise ops, one step after the other."""
    net = kind(width, hidden, layers, bias=biased, bidirectional=both, batch_first=first, device="meta")
    x = torch.empty(4, 3, width, device="meta")
    op = {nn.LSTM: "aten.lstm", nn.GRU: "aten.gru", nn.RNN: "aten.rnn_tanh"}[kind]
    unfused = total(calls(lambda: net(x)))

    with torch.inference_mode():
        whole = cost(call(lambda: net(x), op))

    assert (whole.macs, whole.flops) == unfused


def test_dropout_between_layers_and_projections_cost_what_the_meta_device_runs():
    net = nn.LSTM(3, 5, 3, dropout=0.5, proj_size=2, bidirectional=True, device="meta")
    x = torch.empty(4, 2, 3, device="meta")
    unfused = total(calls(lambda: net(x)))

    with torch.inference_mode():
        whole = cost(call(lambda: net(x), "aten.lstm"))

    assert (whole.macs, whole.flops) == unfused


@pytest.mark.parametrize("biased", [True, False])
def test_the_cpu_layer_costs_what_the_meta_device_runs(biased):
    net = nn.LSTM(3, 5, 2, bias=biased, bidirectional=True)
    x = torch.randn(4, 2, 3)

    fused = total(made for made in calls(lambda: net(x)) if made.op == "aten.mkldnn_rnn_layer")

    assert fused == total(calls(lambda: net.to("meta")(x.to("meta"))))


def test_the_cpu_layers_backward_takes_the_products_twice():
    net, x = nn.LSTM(3, 5), torch.randn(4, 2, 3, requires_grad=True)
    products = 4 * 2 * (20 * 3 + 20 * 5)
    result = net(x)[0].sum()

    made = cost(call(result.backward, "aten.mkldnn_rnn_layer_backward"))

    assert made.macs == 2 * products
    assert made.flops == 2 * made.macs + 4 * 2 * (20 + 20 + 13 * 5)


SIZES = {"mode": 2, "hidden_size": 5, "num_layers": 2, "dropout": 0.0, "train": True, "bidirectional": True}
STATES = {"hx": (4, 2, 5), "cx": (4, 2, 5)}


def weights(width, hidden, gates, projection=0):
    """Two layers, two directions, with biases."""
    out = projection or hidden
    shapes = []
    for layer_width in (width, 2 * out):
        for _ in range(2):
            shapes += [(gates * hidden, layer_width), (gates * hidden, out), (gates * hidden,), (gates * hidden,)]
            shapes += [(projection, hidden)] if projection else []
    return shapes


@pytest.mark.parametrize(("mode", "gates", "each"), [(2, 4, 13), (3, 3, 10), (1, 1, 2), (0, 1, 2)])
def test_cudnn_networks(mode, gates, each):

    given_weights = tuple(map(tensor, weights(3, 5, gates)))
    steps, rows = 7, 2
    products = steps * rows * 2 * gates * 5 * ((3 + 5) + (10 + 5))
    beside = steps * rows * 4 * (2 * gates * 5 + each * 5)
    shared = {**STATES, **SIZES, "mode": mode, "input": (steps, rows, 3), "weight": given_weights, "weight_stride0": 4,
              "batch_first": False, "batch_sizes": (), "dropout_state": None}  # fmt: skip

    cudnn = handmade("aten._cudnn_rnn", (steps, rows, 10), **shared, weight_buf=None, proj_size=0)
    miopen = handmade("aten.miopen_rnn", (steps, rows, 10), **shared)
    backward = {"weight_buf": (1,), "output": (steps, rows, 10), "grad_output": (steps, rows, 10), "grad_hy": None,
                "grad_cy": None, "reserve": (1,)}  # fmt: skip
    all_grads = handmade("aten._cudnn_rnn_backward", (steps, rows, 3), **shared, **backward, proj_size=0,
                         output_mask=(True, True, True, True))  # fmt: skip
    data_only = handmade("aten.miopen_rnn_backward", (steps, rows, 3), **shared, **backward,
                         output_mask=(True, True, True, False))  # fmt: skip

    for made in (cudnn, miopen):
        assert (cost(made).macs, cost(made).flops) == (products, 2 * products + beside)
    assert (cost(all_grads).macs, cost(all_grads).flops) == (2 * products, 4 * products + beside)
    assert (cost(data_only).macs, cost(data_only).flops) == (products, 2 * products + beside)


def test_a_cudnn_network_with_projections_on_a_packed_sequence():

    batch_sizes = (3, 2, 2, 1)
    given_weights = tuple(map(tensor, weights(3, 5, 4, projection=2)))
    per_step = 2 * (20 * 3 + 20 * 2 + 2 * 5) + 2 * (20 * 4 + 20 * 2 + 2 * 5)

    made = handmade("aten._cudnn_rnn", (8, 4), **{**SIZES, "dropout": 0.5}, input=(8, 3), weight=given_weights,
                    weight_stride0=5, weight_buf=None, hx=(4, 3, 2), cx=(4, 3, 5), proj_size=2, batch_first=False,
                    batch_sizes=batch_sizes, dropout_state=None)  # fmt: skip

    assert cost(made).macs == sum(batch_sizes) * per_step
    assert cost(made).flops == 2 * cost(made).macs + 8 * 4 * (40 + 13 * 5) + 2 * 8 * 4


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_a_cell_costs_what_its_parts_do(kind):
    gates = {"lstm": 4, "gru": 3, "rnn_tanh": 1}[kind]
    hx = (torch.randn(2, 5), torch.randn(2, 5)) if kind == "lstm" else torch.randn(2, 5)
    given_weights = [
        torch.randn(gates * 5, 3),
        torch.randn(gates * 5, 5),
        torch.randn(gates * 5),
        torch.randn(gates * 5),
    ]
    run = lambda: getattr(torch, f"{kind}_cell")(torch.randn(2, 3), hx, *given_weights)
    unfused = total(made for made in calls(run) if made.op != "aten.randn")

    with torch.inference_mode():
        whole = cost(call(run, f"aten.{kind}_cell"))

    assert (whole.macs, whole.flops) == unfused


def test_fused_gates_are_what_the_cell_does_behind_its_products():
    """An LSTM's gates cost 13 a unit and a GRU's 10, each bias one for each gate of a unit."""
    lstm = handmade("aten._thnn_fused_lstm_cell", (2, 5), (2, 5), (2, 20), input_gates=(2, 20), hidden_gates=(2, 20),
                    cx=(2, 5), input_bias=(20,), hidden_bias=(20,))  # fmt: skip
    gru = handmade("aten._thnn_fused_gru_cell", (2, 5), (2, 25), input_gates=(2, 15), hidden_gates=(2, 15), hx=(2, 5))
    lstm_back = handmade("aten._thnn_fused_lstm_cell_backward_impl", (2, 20), (2, 5), (20,), grad_hy=(2, 5), grad_cy=None,
                         cx=(2, 5), cy=(2, 5), workspace=(2, 20), has_bias=True)  # fmt: skip
    gru_back = handmade("aten._thnn_fused_gru_cell_backward", (2, 15), (2, 15), (2, 5), grad_hy=(2, 5), workspace=(2, 25),
                        has_bias=True)  # fmt: skip

    assert cost(lstm).flops == 10 * (13 + 8)
    assert cost(gru).flops == 10 * 10
    assert cost(lstm_back).flops == 10 * 13
    assert cost(gru_back).flops == 10 * (10 + 6)


def test_quantized_networks_count_their_hidden_weights():
    net = torch.ao.nn.quantized.dynamic.LSTM(3, 5, 2, bidirectional=True)

    made = cost(call(lambda: net(torch.randn(4, 2, 3)), "aten.quantized_lstm"))

    assert made.macs == 4 * 2 * 2 * 20 * ((3 + 5) + (10 + 5))
