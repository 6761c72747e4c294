"""An LSTM on meta as the CPU runs it: one fused op for each layer and direction, where meta would take every step apart."""

from __future__ import annotations

from typing import Any

import torch

from . import internals

Tensor = torch.Tensor
aten = torch.ops.aten
LSTM = 2
"""oneDNN's number for the kind of network."""


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
                x, *weights, hx[0][at], hx[1][at], direction > 0, [], LSTM, hidden, num_layers,
                has_biases, bidirectional, batch_first, train,
            )  # fmt: skip
            outputs.append(output)
            states.append(state)
            cells.append(cell)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            x = torch.dropout(x, dropout, train=True)
    return x.transpose(0, 1) if batch_first else x, torch.stack(states), torch.stack(cells)
