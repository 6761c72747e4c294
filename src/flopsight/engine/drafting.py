"""The draft model of speculative decoding: counted at the same prompts as the model that checks it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from ..errors import InputError, whole_number
from ..results.generation import Draft, Generation

LENGTH = 4
"""Tokens that are drafted in a round if nothing is said."""


def check_draft(draft: object, acceptance: float | None, length: int) -> None:
    """Refuse a chance that is not one, or is that of no draft, and a draft without tokens."""
    if draft is None:
        raise InputError("acceptance is the chance that a token of a draft is accepted; give draft='hf:llama-3.1-8b'.")
    if acceptance is None:
        raise InputError("A draft needs the chance that its tokens are accepted: acceptance=0.8 (--accept 0.8).")
    if isinstance(acceptance, bool) or not isinstance(acceptance, int | float) or not 0 <= acceptance <= 1:
        raise InputError(f"acceptance is a chance from 0 to 1, not {acceptance!r}.")
    whole_number("draft_length", length, 1)


def check_vocabulary(model: nn.Module, draft: nn.Module) -> None:
    """Refuse a draft that writes other tokens."""
    words = [_vocabulary(one) for one in (model, draft)]
    if None not in words and words[0] != words[1]:
        raise InputError(
            f"{type(draft).__name__} cannot draft for {type(model).__name__}: it has {words[1]:,} tokens and the other "
            f"{words[0]:,}. A draft needs the same vocabulary."
        )


def with_draft(made: Generation, drafted: Generation, acceptance: float, length: int) -> Generation:
    """The generation with a draft, which was counted at the same prompts."""
    if made.seen != made.prompt:
        raise InputError("An encoder-decoder is not drafted for here; leave out the draft.")
    return replace(made, draft=Draft(drafted, float(acceptance), length))


def _vocabulary(model: Any) -> int | None:
    config = getattr(model, "config", None)
    size = getattr(config.get_text_config(), "vocab_size", None) if config is not None else None
    return size if isinstance(size, int) else None
