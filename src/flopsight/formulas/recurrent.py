"""Recurrent layers and cells: LSTM, GRU and the plain kind, on every backend, forward and backward.

Every step multiplies each weight matrix (input, hidden, projection) once with each row that is not padding.
Beside the products a cell costs what its unfused form does: its biases, one FLOP an element each, and for each hidden
unit 13 in an LSTM (4 sums of gates, 4 activations, 5 to form cell and output), 10 in a GRU, 2 in the plain kind.
The fused backward takes the products once for the data and once for the weights, and the same FLOPs beside them.
"""

from math import prod

from ..results.costs import Cost
from ..results.records import OpRecord, TensorMeta
from .matmul import products
from .registry import aten, formula, named

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
POINTWISE = {"lstm": 13, "gru": 10, "rnn": 2}
MODES = ("rnn", "rnn", "lstm", "gru")
"""The families by torch's number: ReLU, tanh, LSTM, GRU."""
DROPOUT = 2


def family(call: OpRecord) -> str:
    """Which kind of cell a call is about, by its mode or its name."""
    if "mode" in call.args:
        return MODES[call.args["mode"]]
    return next((name for name in ("lstm", "gru") if name in call.op), "rnn")


def steps(x: TensorMeta) -> int:
    """Rows that are multiplied: time steps times batch, or the rows of a packed sequence."""
    return prod(x.shape[:-1])


def stepped(call: OpRecord, rows: int, weights: tuple[TensorMeta, ...], units: int) -> Cost:
    """Matrices multiply each row, vectors are added to it, and `units` hidden units do their pointwise work."""
    macs = rows * sum(weight.numel for weight in weights if len(weight.shape) == 2)
    adds = rows * sum(weight.numel for weight in weights if len(weight.shape) == 1)
    return products(call, macs, adds + rows * units * POINTWISE[family(call)])


def directions(call: OpRecord) -> int:
    """Two if the sequence is also read backwards."""
    return 2 if call.args.get("bidirectional") else 1


def between_layers(call: OpRecord, rows: int, width: int) -> Cost:
    """Dropout on what each layer but the last hands on."""
    if not call.args.get("dropout") or not call.args.get("train"):
        return Cost()
    return Cost(flops=DROPOUT * rows * width * directions(call) * (call.args["num_layers"] - 1))


def whole(call: OpRecord, x: TensorMeta, weights: tuple[TensorMeta, ...], hidden: int, width: int) -> Cost:
    """All layers and directions of a recurrent network."""
    units = hidden * call.args["num_layers"] * directions(call)
    return stepped(call, steps(x), weights, units) + between_layers(call, steps(x), width)


@formula(*aten("lstm gru rnn_tanh rnn_relu _lstm_mps lstm_mps_backward"))
def network(call: OpRecord) -> Cost:
    """A network as torch's composite op has it, all weights in one list; backward the gradients of data and weights."""
    states = call.tensors("hx")
    x = call.tensor("data" if "data" in call.args else "input")
    forward = whole(call, x, call.tensors("params"), states[-1].shape[-1], states[0].shape[-1])
    return _repeated(forward, 2) if "backward" in call.op else forward


@formula(*aten("_cudnn_rnn miopen_rnn _cudnn_rnn_backward miopen_rnn_backward"))
def vendor_network(call: OpRecord) -> Cost:
    """The same in one kernel of a vendor's library; backward the gradients of all data, and of weights if asked for."""
    hidden = call.args["hidden_size"]
    forward = whole(call, call.tensor("input"), call.tensors("weight"), hidden, call.args.get("proj_size") or hidden)
    return _repeated(forward, 1 + call.args["output_mask"][3]) if "backward" in call.op else forward


@formula(*aten("mkldnn_rnn_layer mkldnn_rnn_layer_backward"))
def layer(call: OpRecord) -> Cost:
    """One layer in one direction; backward the gradients of data and weights."""
    backward = "backward" in call.op
    weights = tuple(call.tensor(f"weight{place + backward}") for place in range(4))
    kept = weights if call.args["has_biases"] else weights[:2]
    forward = stepped(call, steps(call.tensor("input")), kept, call.args["hidden_size"])
    return _repeated(forward, 2) if backward else forward


def _repeated(forward: Cost, times: int) -> Cost:
    """The products several times, and the rest once."""
    return Cost(forward.macs * times, forward.flops + 2 * forward.macs * (times - 1))


@formula(*aten("lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"))
def cell(call: OpRecord) -> Cost:
    """One step of one layer."""
    weights = tuple(meta for name in ("w_ih", "w_hh", "b_ih", "b_hh") for meta in call.tensors(name))
    return stepped(call, steps(call.tensor("input")), weights, call.tensors("hx")[0].shape[-1])


@formula(*aten("_thnn_fused_lstm_cell _thnn_fused_gru_cell"))
def gates(call: OpRecord) -> Cost:
    """What a cell does behind its products: biases if given, then the gates."""
    state = call.tensor("cx" if "cx" in call.args else "hx")
    biases = sum(call.args.get(name) is not None for name in ("input_bias", "hidden_bias"))
    kind = family(call)
    return Cost(flops=state.numel * (POINTWISE[kind] + biases * GATES[kind]))


@formula("aten._thnn_fused_lstm_cell_backward_impl")
def lstm_gates_backward(call: OpRecord) -> Cost:
    """As much as the gates cost forward; the biases' gradients are sums of their own."""
    return Cost(flops=call.tensor("cx").numel * POINTWISE["lstm"])


@formula("aten._thnn_fused_gru_cell_backward")
def gru_gates_backward(call: OpRecord) -> Cost:
    """As much as the gates cost forward, and the sums for both biases."""
    biases = 2 * GATES["gru"] if call.args["has_bias"] else 0
    return Cost(flops=call.tensor("grad_hy").numel * (POINTWISE["gru"] + biases))


@formula(*aten("quantized_lstm quantized_gru"))
def quantized_network(call: OpRecord) -> Cost:
    """A network with packed weights, whose shapes follow from the sizes of input and state; packed biases are left out."""
    x = call.tensor("data" if "data" in call.args else "input")
    hidden, both, layers = call.tensors("hx")[0].shape[-1], directions(call), call.args["num_layers"]
    widths = [x.shape[-1]] + [hidden * both] * (layers - 1)
    macs = steps(x) * both * sum(GATES[family(call)] * hidden * (width + hidden) for width in widths)
    return products(call, macs, steps(x) * hidden * layers * both * POINTWISE[family(call)])


@formula(
    *named("quantized", "quantized_lstm_cell_dynamic quantized_gru_cell_dynamic"),
    *named("quantized", "quantized_rnn_tanh_cell_dynamic quantized_rnn_relu_cell_dynamic"),
)
def quantized_cell(call: OpRecord) -> Cost:
    """One step with packed weights."""
    x, hidden = call.tensor("input"), call.tensors("hx")[0].shape[-1]
    macs = x.numel // x.shape[-1] * GATES[family(call)] * hidden * (x.shape[-1] + hidden)
    return products(call, macs, steps(x) * hidden * POINTWISE[family(call)])
