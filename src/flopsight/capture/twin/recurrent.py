"""Recurrent layers on meta as a device runs them: in fused ops, where meta would take every step apart."""

from __future__ import annotations

from typing import Any

import torch

from ..hooks import internals

Tensor = torch.Tensor
aten = torch.ops.aten
KINDS = ("rnn_relu", "rnn_tanh", "lstm", "gru")
"""In the order in which both oneDNN and cuDNN number them."""


def is_fused_on_cpu(data: Tensor, hx: Any, *_rest: Any) -> bool:
    """Whether the CPU has a fused kernel: single precision, no packed sequence, no projection."""
    if isinstance(hx, Tensor) or not internals.uses_onednn():
        return False
    return data.dtype is torch.float32 and data.numel() > 0 and hx[0].shape[-1] == hx[1].shape[-1]


def lstm_on_cpu(
    data: Tensor, hx: tuple[Tensor, Tensor], params: list[Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """What torch does on the CPU, layer by layer."""
    hidden, directions = hx[0].shape[-1], 2 if bidirectional else 1
    each = 4 if has_biases else 2
    x = (data.transpose(0, 1) if batch_first else data).contiguous()
    states: list[Tensor] = []
    cells: list[Tensor] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            weights = params[at * each : (at + 1) * each]
            if not has_biases:
                weights = [
                    *weights,
                    *(torch.zeros(weights[0].shape, dtype=data.dtype, device=data.device) for _ in "ih"),
                ]
            output, state, cell, _ = aten.mkldnn_rnn_layer(
                x, *weights, hx[0][at], hx[1][at], direction > 0, [], KINDS.index("lstm"), hidden, num_layers,
                has_biases, bidirectional, batch_first, train,
            )  # fmt: skip
            outputs.append(output)
            states.append(state)
            cells.append(cell)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            x = torch.dropout(x, dropout, train=True)
    return x.transpose(0, 1) if batch_first else x, torch.stack(states), torch.stack(cells)


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
        data, params, weights_a_layer, flat, state, cell, KINDS.index(kind), hidden, projected, num_layers,
        not packed and args[8], dropout, train, bidirectional, sizes, None,
    )  # fmt: skip
    return output, *states[: 1 if cell is None else 2]
