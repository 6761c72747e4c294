"""Recurrent layers on meta as a device runs them: in fused ops, where meta would take every step apart."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import accumulate
from typing import Any

import torch

from ..hooks import internals

Tensor = torch.Tensor
aten = torch.ops.aten
State = tuple[Tensor, ...]
"""What goes from step to step: a hidden state, and the cell of an LSTM."""
NETWORKS = ("rnn_relu", "rnn_tanh", "lstm", "gru")
"""In the order in which both oneDNN and cuDNN number them."""
LONGEST_ASKED = 1 << 22
"""Bytes of input and gates up to which a layer is run to learn how large its workspace is: milliseconds."""


def layers_on_cpu(kind: str, *args: Any) -> tuple[Tensor, ...]:
    """What torch does on the CPU, layer by layer."""
    packed = isinstance(args[3], list)
    data, state, params, has_biases, num_layers, dropout, train, bidirectional, batch_first = (
        (args[0], *args[2:], False) if packed else args
    )
    sizes = args[1].tolist() if packed else None
    states = (state,) if isinstance(state, Tensor) else tuple(state)
    if kind == "lstm" and not packed and _is_fused(data, *states):
        return _fused_lstm(data, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    x = data.transpose(0, 1) if batch_first else data
    begins = list(zip(*(one.unbind(0) for one in states), strict=True))
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    ends: list[State] = []
    for layer in range(num_layers):
        first = layer * directions
        parts = [params[at * each : (at + 1) * each] for at in range(first, first + directions)]
        x = _both_directions(kind, x, sizes, begins[first:], [_Weights(part, has_biases) for part in parts], ends)
        if dropout and train and layer < num_layers - 1:
            x = torch.dropout(x, dropout, train=True)
    return x.transpose(0, 1) if batch_first else x, *(torch.stack(one) for one in zip(*ends, strict=True))


def _both_directions(
    kind: str, x: Tensor, sizes: list[int] | None, begins: Any, weights: list[_Weights], ends: list[State]
) -> Tensor:
    """A layer, in one direction or both; what torch needs on the way is alive as long as torch has it."""
    outputs, kept = [], []
    for back, (begin, one) in enumerate(zip(begins, weights, strict=False)):
        if sizes is not None:
            output, end = (_packed_back if back else _packed)(kind, x, sizes, begin, one)
        else:
            inputs = one.products(x)
            made, end = _run(kind, inputs.unbind(0)[:: -1 if back else 1], begin, one)
            output = torch.stack(made[:: -1 if back else 1])
            kept.append(made)
        outputs.append(output)
        ends.append(end)
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)


class _Weights:
    """The weights of one direction of a layer, by their names in torch."""

    def __init__(self, weights: list[Tensor], has_biases: bool) -> None:
        self.w_ih, self.w_hh, *rest = weights
        self.b_ih: Tensor | None = rest[0] if has_biases else None
        self.b_hh: Tensor | None = rest[1] if has_biases else None
        self.projection = rest[-1] if len(rest) % 2 else None

    def products(self, inputs: Tensor) -> Tensor:
        """The products with the inputs of all steps at once."""
        return torch.nn.functional.linear(inputs, self.w_ih, self.b_ih)


def _run(kind: str, steps: Iterable[Tensor], begin: State, weights: _Weights) -> tuple[list[Tensor], State]:
    """One direction: what comes out at every step, and the state in the end; the inputs' products are there already."""
    state, outputs = begin, []
    for step in steps:
        state = _cell(kind, step, state, weights)
        outputs.append(state[0])
    return outputs, state


def _packed(kind: str, x: Tensor, sizes: list[int], begin: State, weights: _Weights) -> tuple[Tensor, State]:
    """The same for sequences of several lengths, the longest first: those that are over leave with their state."""
    state, outputs, over = begin, [], []
    inputs, before = weights.products(x), sizes[0]
    for end, now in zip(accumulate(sizes), sizes, strict=True):
        step = inputs.narrow(0, end - now, now)
        if before > now:
            over.append(tuple(one.narrow(0, now, before - now) for one in state))
            state = tuple(one.narrow(0, 0, now) for one in state)
        state, before = _cell(kind, step, state, weights), now
        outputs.append(state[0])
    return torch.cat(outputs), tuple(map(torch.cat, zip(state, *reversed(over), strict=True)))


def _packed_back(kind: str, x: Tensor, sizes: list[int], begin: State, weights: _Weights) -> tuple[Tensor, State]:
    """The same from the end, where the longest begin alone and the others join them."""
    inputs, before, outputs = weights.products(x), sizes[-1], []
    state = tuple(one.narrow(0, 0, before) for one in begin)
    for end, now in reversed([*zip(accumulate(sizes), sizes, strict=True)]):
        if now > before:
            joining = (one.narrow(0, before, now - before) for one in begin)
            state = tuple(map(torch.cat, zip(state, joining, strict=True)))
        step = inputs.narrow(0, end - now, now)
        state, before = _cell(kind, step, state, weights), now
        outputs.append(state[0])
    return torch.cat(outputs[::-1]), state


def _cell(kind: str, step: Tensor, state: State, weights: _Weights) -> State:
    gates = torch.nn.functional.linear(state[0], weights.w_hh, weights.b_hh)
    if kind == "lstm":
        enter, forget, cell, leave = gates.add_(step).unsafe_chunk(4, 1)
        enter, forget, cell, leave = enter.sigmoid_(), forget.sigmoid_(), cell.tanh_(), leave.sigmoid_()
        memory = (forget * state[1]).add_(enter * cell)
        hidden = leave * memory.tanh()
        if weights.projection is not None:
            hidden = hidden.matmul(weights.projection.t())
        return hidden, memory
    if kind == "gru":
        inputs, (reset, update, new) = step.unsafe_chunk(3, 1), gates.unsafe_chunk(3, 1)
        reset, update = reset.add_(inputs[0]).sigmoid_(), update.add_(inputs[1]).sigmoid_()
        new = inputs[2].add(new.mul_(reset)).tanh_()
        return ((state[0] - new).mul_(update).add_(new),)
    summed = gates.add_(step)
    return (summed.tanh() if kind == "rnn_tanh" else summed.relu(),)


def _is_fused(data: Tensor, state: Tensor, cell: Tensor) -> bool:
    """Whether the CPU has a fused kernel: a precision that it knows, no projection."""
    if not internals.uses_onednn() or not data.numel() or state.shape[-1] != cell.shape[-1]:
        return False
    return data.dtype is torch.float32 or internals.onednn_has_halves(data.dtype)


def _fused_lstm(
    data: Tensor, states: tuple[Tensor, ...], params: list[Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    hidden, directions = states[0].shape[-1], 2 if bidirectional else 1
    each = 4 if has_biases else 2
    given = x = (data.transpose(0, 1) if batch_first else data).contiguous()
    ends: list[Tensor] = []
    cells: list[Tensor] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            weights = params[at * each : (at + 1) * each]
            output, end, cell, _ = aten.mkldnn_rnn_layer(
                x, *weights, *([] if has_biases else map(torch.zeros_like, weights)), states[0][at], states[1][at],
                direction > 0, [], NETWORKS.index("lstm"), hidden, num_layers, has_biases, bidirectional, batch_first, train,
            )  # fmt: skip
            outputs.append(output)
            ends.append(end)
            cells.append(cell)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            x = torch.dropout(x, dropout, train=True)
    last = torch.stack(ends), torch.stack(cells)
    del given  # torch has its input in plain order until here
    return x.transpose(0, 1) if batch_first else x, *last


def fused_layer(*args: Any) -> tuple[Tensor, ...]:
    """A layer of oneDNN, and the workspace that its backward reads, which torch's meta kernel leaves out."""
    output, state, cell, workspace = aten.mkldnn_rnn_layer.default(*args)
    if torch.is_grad_enabled():
        data, hidden = args[0], args[10]
        workspace = workspace.new_empty(workspace_bytes(*data.shape, hidden, data.dtype))
    return output, state, cell, workspace


@cache
def workspace_bytes(steps: int, batch: int, width: int, hidden: int, dtype: torch.dtype) -> int:
    """What oneDNN keeps of a layer: it is asked, with a layer of this size; a long one is read off two shorter ones."""
    short = max(LONGEST_ASKED // (4 * batch * (width + 4 * hidden)), 2)
    if steps <= short:
        return _asked(steps, batch, width, hidden, dtype)
    whole, half = (_asked(length, batch, width, hidden, dtype) for length in (short, short // 2))
    return whole + (whole - half) * (steps - short) // (short - short // 2)


def _asked(steps: int, batch: int, width: int, hidden: int, dtype: torch.dtype) -> int:
    with internals.without_modes(), torch.enable_grad():
        weights = [torch.zeros(4 * hidden, *rest, dtype=dtype) for rest in ((width,), (hidden,), (), ())]
        states = [torch.zeros(batch, hidden, dtype=dtype) for _ in "hc"]
        made = aten.mkldnn_rnn_layer.default(
            torch.zeros(steps, batch, width, dtype=dtype), *weights, *states, False, [], NETWORKS.index("lstm"), hidden, 1,
            True, False, False, True,
        )  # fmt: skip
    return int(made[3].numel())


def network_on_cuda(kind: str, *args: Any) -> tuple[Tensor, ...]:
    """What torch hands to cuDNN: the whole network in one op, packed sequences too."""
    packed = isinstance(args[3], list)
    data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional = (
        args if packed else (args[0], None, *args[1:8])
    )
    sizes = [] if batch_sizes is None else batch_sizes.tolist()
    state, cell = hx if kind == "lstm" else (hx, None)
    hidden = state.shape[-1] if cell is None else cell.shape[-1]
    projected = state.shape[-1] if state.shape[-1] != hidden else 0
    weights_a_layer = (4 if has_biases else 2) + bool(projected)
    flat = torch.empty(sum(weight.numel() for weight in params), dtype=data.dtype, device="meta")
    output, *states, _, _ = aten._cudnn_rnn(
        data, params, weights_a_layer, flat, state, cell, NETWORKS.index(kind), hidden, projected, num_layers,
        not packed and args[8], dropout, train, bidirectional, sizes, None,
    )  # fmt: skip
    return output, *states[: 1 if cell is None else 2]
