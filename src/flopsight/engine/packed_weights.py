"""Which weights of a model a quantised checkpoint packs, and the bytes that each then takes."""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor, nn

from ..results.packing import Packing

MATRIX = 2
TURNED = ("Conv1D",)
"""Classes whose matrix has a row for each input, not for each output."""


NAMES = re.compile(r"weight|proj|kernel|^[wv]\d+$")
"""What matrices are called in a module that holds several parameters: a state-space model's `A_log` is not one."""


def packed_sizes(model: nn.Module, packing: Packing) -> dict[str, int]:
    """By the name of a parameter, its bytes if it is packed: every matrix that a layer multiplies with, but not the head.

    Tables, norms, biases, convolutions and coefficients stay as they are, as in checkpoints of GPTQ, AWQ and LLM.int8().
    """
    embeddings: Any = getattr(model, "get_output_embeddings", lambda: None)()
    head = {id(p) for p in embeddings.parameters()} if embeddings is not None else set()
    kept = (nn.Embedding, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    found = {}
    for path, module in model.named_modules():
        if isinstance(module, kept):
            continue
        for name, weight in module.named_parameters(prefix=path, recurse=False):
            if id(weight) in head or not _is_matrix(name.rpartition(".")[2], weight):
                continue
            width = weight.shape[0] if type(module).__name__ in TURNED else weight.shape[-1]
            found[name] = packing.nbytes(weight.numel() // width, width)
    return found


def _is_matrix(name: str, weight: Tensor) -> bool:
    """Whether a parameter is multiplied with as a matrix, or as a stack of matrices, one for each expert."""
    if weight.dim() < MATRIX or 1 in weight.shape[-MATRIX:] or "bias" in name or not weight.is_floating_point():
        return False
    return bool(NAMES.search(name)) or weight.dim() > MATRIX
