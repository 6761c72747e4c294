"""Labels for a training step of a transformers model, so that its own loss is counted."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

TOKENS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "ForImageTextToText")
"""How classes end whose labels are token ids, one for each position of the logits."""
CLASSES = (
    "ForSequenceClassification",
    "ForImageClassification",
    "ForVideoClassification",
    "ForAudioClassification",
)
"""How classes end whose labels are one class a sample."""


def labels_for(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """`labels` for a model that takes them, from the inputs it gets; nothing for other models, or if they are given."""
    import torch

    if "labels" in given or "labels" not in inspect.signature(model.forward).parameters:
        return {}
    kind = type(model).__name__
    tensors = [value for value in given.values() if isinstance(value, torch.Tensor) and value.dim()]
    if kind.endswith(CLASSES) and tensors and getattr(model.config, "num_labels", 1) > 1:
        return {"labels": torch.zeros(tensors[0].shape[0], dtype=torch.int64, device=tensors[0].device)}
    ids = given.get("decoder_input_ids", given.get("input_ids"))
    books = getattr(model.config.get_text_config(decoder=True), "num_codebooks", 1) or 1  # a row of ids for each
    if not kind.endswith(TOKENS) or not isinstance(ids, torch.Tensor) or ids.dim() != 2 or books > 1:
        return {}
    return {"labels": ids}
