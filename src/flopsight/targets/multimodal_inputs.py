"""Inputs of models that read an image inside a text: image tokens in front, then words, and the pixels they stand for."""

from __future__ import annotations

import inspect
from typing import Any

from .blueprint import Sizes
from .model_inputs import few_tokens, image_of, token_ids

GRID = 16
"""Patches along each side of an image, for models that take images of any size as rows of patches."""
TOGETHER = frozenset(
    {"input_ids", "pixel_values", "image_grid_thw", "mm_token_type_ids", "token_type_ids", "pixel_attention_mask", "spatial_shapes"}
)  # fmt: skip
"""Inputs that fit one another; where one of them is given, the others are not made."""


def reads_images_in_text(model: Any, config: Any) -> bool:
    """Whether tokens of the text stand for parts of an image, in a way that is known here."""
    takes = inspect.signature(model.forward).parameters
    return "pixel_values" in takes and image_token(config) is not None and image_tokens(config) is not None


def image_token(config: Any) -> int | None:
    """The token that stands for a part of an image."""
    names = ("image_token_id", "image_token_index")
    return next((value for name in names if isinstance(value := getattr(config, name, None), int)), None)


def image_tokens(config: Any) -> int | None:
    """How many tokens one image takes; None if it depends on more than the configuration, or its parts do not fit."""
    vision: Any = getattr(config, "vision_config", None)
    if _rows_of_patches(config):
        width = getattr(vision, "out_hidden_size", None) or vision.hidden_size
        fits = width == config.get_text_config().hidden_size
        return (GRID // vision.spatial_merge_size) ** 2 if fits else None
    if isinstance(getattr(config, "mm_tokens_per_image", None), int):
        side = int(config.mm_tokens_per_image**0.5)
        return int(config.mm_tokens_per_image) if vision.image_size // vision.patch_size >= side else None
    if isinstance(getattr(config, "image_seq_length", None), int):
        return int(config.image_seq_length)
    if config.model_type == "paligemma":
        return int(vision.image_size // vision.patch_size) ** 2
    return None


def image_and_text(model: Any, config: Any, batch: int, sizes: Sizes) -> dict[str, Any]:
    """One image and a text after it, in every sequence."""
    import torch

    takes = inspect.signature(model.forward).parameters
    count, token = image_tokens(config) or 0, image_token(config) or 0
    words = max(1, sizes.seq - count) if sizes.seq else few_tokens(config)
    seen = torch.full((batch, count), token, device="cpu")
    kinds = torch.cat([torch.ones_like(seen), torch.zeros((batch, words), dtype=torch.int64, device="cpu")], dim=1)
    made: dict[str, Any] = {"input_ids": torch.cat([seen, token_ids(config, batch, words)], dim=1)}
    if _rows_of_patches(config):
        vision = config.vision_config
        channels = getattr(vision, "in_channels", None) or getattr(vision, "in_chans", 3)
        made["pixel_values"] = torch.randn(
            batch * GRID * GRID, channels * vision.temporal_patch_size * vision.patch_size**2
        )
        made["image_grid_thw"] = torch.tensor([[1, GRID, GRID]] * batch, device="cpu")
    else:
        made |= image_of(config, batch)
    for name in ("mm_token_type_ids", "token_type_ids"):
        if name in takes:
            made[name] = kinds
    return made


def _rows_of_patches(config: Any) -> bool:
    """Qwen's models see an image as rows of patches, with its size in patches beside it."""
    vision: Any = getattr(config, "vision_config", None)
    return hasattr(vision, "spatial_merge_size") and hasattr(vision, "temporal_patch_size")
