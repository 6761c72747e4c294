"""Learned positions of transformers models: a table that a real run reads past with an error, and a run on meta silently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from ...errors import InputError

LENGTHS = ("n_positions", "max_position_embeddings", "max_target_positions")
"""What configurations call the number of positions that a model has."""
TOKENS = ("input_ids", "decoder_input_ids")


def check_positions(text: str, model: nn.Module, inputs: Mapping[str, Any], new_tokens: int = 0) -> None:
    """Refuse more tokens than a model has learned positions for; positions that are computed go on for ever."""
    config: Any = getattr(model, "config", None)
    for name in TOKENS:
        ids = inputs.get(name)
        if config is None or ids is None or ids.dim() != 2:
            continue
        decodes = config.is_encoder_decoder and name == "decoder_input_ids"
        part = config.get_text_config(
            **({"decoder" if decodes else "encoder": True} if config.is_encoder_decoder else {})
        )
        found = learned_positions(model, part)
        tokens = ids.shape[1] + new_tokens
        if found is not None and tokens > found[1]:
            key, positions = found
            given = f"{name} of {ids.shape[1]:,} tokens"
            reads = f"{given} and {new_tokens:,} new ones read" if new_tokens else f"{given} reads"
            raise InputError(
                f"{text} has a table of {positions:,} positions, and {reads} past its end. Give at most {positions:,} tokens"
                f"{' in all' if new_tokens else ''}, or a longer table after a second colon: {key}={tokens}."
            )


def positions_of(model: nn.Module) -> int | None:
    """Tokens that the decoder of a model has positions for, learned or computed, by its configuration."""
    config: Any = getattr(model, "config", None)
    if config is None:
        return None
    part = config.get_text_config(**({"decoder": True} if config.is_encoder_decoder else {}))
    found = learned_positions(model, part)
    if found is not None:
        return found[1]
    length = getattr(part, "max_position_embeddings", None)
    return length if isinstance(length, int) else None


def learned_positions(model: nn.Module, config: Any) -> tuple[str, int] | None:
    """The key of a configuration that says how many positions there are, and their number; None without such a table."""
    tables = [
        module for name, module in model.named_modules() if is_of_positions(name) and isinstance(module, nn.Embedding)
    ]
    for key in LENGTHS:
        length = getattr(config, key, None)
        if not isinstance(length, int):
            continue
        for table in tables:
            # OPT's and BART's tables have two rows more; RoBERTa counts from the row after the padding's
            if length <= table.num_embeddings <= length + 2:
                first = 0 if table.padding_idx is None else table.padding_idx + 1
                return key, min(length, table.num_embeddings - first)
    return None


def is_of_positions(name: str) -> bool:
    """Whether a table holds positions, by the path of its module."""
    last = name.rpartition(".")[2]
    return "position" in last or last == "wpe"
