"""Inputs made from the configuration of a transformers model: text, images, sound, several of these, or an image inside a text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .. import units
from .blueprint import Call, Sizes

TOKENS = 128
VIDEO = ("videomae", "timesformer", "vivit")
SPECIAL = ("token_id", "token_index")
SAMPLES = 16_000
"""One second of sound."""
FRAMES = 128
"""Steps of a spectrogram, if the configuration does not say how many."""


def default_call(model: Any, config: Any, sizes: Sizes) -> Call:
    """One sequence, image or sound, by the names that the model's forward has; nothing if it wants something else."""
    takes = inspect.signature(model.forward).parameters
    batch = sizes.batch or 1
    made: dict[str, Any] = {}
    main = model.main_input_name
    together: frozenset[str] = frozenset()
    if reads_images_in_text(model, config):
        made |= image_and_text(model, config, batch, sizes)
        together = TOGETHER
    elif "input_ids" in takes and "pixel_values" in takes and _side_by_side(config):
        made |= _tokens(config, batch, sizes) | image_of(config, batch, sizes)
    elif main in MAKERS:
        made |= MAKERS[main](config, batch, sizes)
    if config.is_encoder_decoder and "decoder_input_ids" in takes:
        books = getattr(config.get_text_config(decoder=True), "num_codebooks", 1)  # MusicGen has a row for each
        made["decoder_input_ids"] = token_ids(config, batch * books, sizes.seq or few_tokens(config))
    remark = ", ".join(f"{name} {units.shape(value.shape)}" for name, value in made.items())
    if made and "pixel_values" in takes and "pixel_values" not in made:
        remark += " (no image)"
    return Call((), made, remark, together)


def _text(config: Any) -> Any:
    """The configuration of the part that reads tokens, the first if there are two; None if there is none."""
    text = config.get_text_config(encoder=True) if config.is_encoder_decoder else config.get_text_config()
    return text if isinstance(getattr(text, "vocab_size", None), int) and text.vocab_size > 1 else None


def _vision(config: Any) -> Any:
    """The configuration of the part that sees images."""
    for part in ("vision", "backbone", "vision_model", "image_encoder", "prompt_encoder"):
        found = getattr(config, f"{part}_config", None)
        if found is not None and (hasattr(found, "image_size") or hasattr(found, "num_patches")):
            return found
    return config


def _side_by_side(config: Any) -> bool:
    """Whether text and image go in side by side, as into CLIP, rather than one inside the other."""
    return all(hasattr(config, name) for name in ("text_config", "vision_config")) and not any(
        hasattr(config, name) for name in ("image_token_id", "image_token_index")
    )


def token_ids(config: Any, batch: int, length: int) -> torch.Tensor:
    """Random token ids, none of which stands for an image or an end."""
    text = _text(config)
    size = text.vocab_size if text is not None else 2
    special = {
        value for source in (config, text) for name, value in vars(source).items() if name.endswith(SPECIAL) and isinstance(value, int)
    } if text is not None else set()  # fmt: skip
    plain = next((token for token in range(size) if token not in special), 0)
    ids = torch.randint(size, (batch, length), device="cpu")
    for token in special:
        ids[ids == token] = plain
    return ids


def few_tokens(config: Any) -> int:
    """128 tokens, and no more than the model has positions for."""
    text = _text(config) or config
    names = ("max_position_embeddings", "n_positions", "max_target_positions")
    known = [value for name in names if isinstance(value := getattr(text, name, None), int) and value > 0]
    return min([TOKENS, *known])


def _tokens(config: Any, batch: int, sizes: Sizes) -> dict[str, Any]:
    if _text(config) is None:
        return {}
    return {"input_ids": token_ids(config, batch, sizes.seq or few_tokens(config))}


def image_of(config: Any, batch: int, _: Sizes) -> dict[str, Any]:
    """One image of the size in the configuration, or a short video if the model takes those."""
    seen = _vision(config)
    # SigLIP 2: patches in a row, with their layout
    if hasattr(seen, "num_patches") and not hasattr(seen, "image_size"):
        side, width = int(seen.num_patches**0.5), seen.num_channels * seen.patch_size**2
        return {
            "pixel_values": torch.randn(batch, side * side, width),
            "pixel_attention_mask": torch.ones((batch, side * side), dtype=torch.int64, device="cpu"),
            "spatial_shapes": torch.tensor([[side, side]] * batch, device="cpu"),
        }
    size = getattr(seen, "image_size", None) or getattr(seen, "img_size", None) or 224
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = getattr(seen, "num_channels", None) or getattr(seen, "in_channels", None) or 3
    frames = getattr(config, "num_frames", None)
    moving = (frames,) if isinstance(frames, int) and config.model_type in VIDEO else ()
    return {"pixel_values": torch.randn(batch, *moving, int(channels), int(height), int(width))}


def _spectrogram(config: Any, batch: int, _: Sizes) -> dict[str, Any]:
    bins = getattr(config, "num_mel_bins", None)
    if isinstance(bins, int) and config.model_type.startswith("whisper"):
        return {"input_features": torch.randn(batch, bins, 2 * config.max_source_positions)}
    names = ("input_feat_per_channel", "feature_projection_input_dim", "feature_size")
    width = bins or next((getattr(config, name) for name in names if hasattr(config, name)), 80)
    return {"input_features": torch.randn(batch, FRAMES, int(width))}


def _sound(config: Any, batch: int, _: Sizes) -> dict[str, Any]:
    bins = getattr(config, "num_mel_bins", None)
    if isinstance(bins, int) and hasattr(config, "max_length"):
        return {"input_values": torch.randn(batch, config.max_length, bins)}
    # a codec takes channels of sound, a speech encoder takes one without saying so
    channels = getattr(config, "audio_channels", 1 if hasattr(config, "codebook_size") else None)
    return {"input_values": torch.randn(batch, *([channels] if isinstance(channels, int) else []), SAMPLES)}


def _series(config: Any, batch: int, _: Sizes) -> dict[str, Any]:
    """The past of a time series, with its future if the model learns to predict it."""
    channels = getattr(config, "num_input_channels", None)
    if channels is not None:
        return {"past_values": torch.randn(batch, config.context_length, channels)}
    past, future = config.context_length + max(config.lags_sequence), config.prediction_length
    wide = (config.input_size,) if config.input_size > 1 else ()
    return {
        "past_values": torch.randn(batch, past, *wide),
        "past_time_features": torch.randn(batch, past, config.num_time_features),
        "past_observed_mask": torch.ones(batch, past, *wide),
        "future_values": torch.randn(batch, future, *wide),
        "future_time_features": torch.randn(batch, future, config.num_time_features),
    }


MAKERS: Mapping[str, Callable[[Any, int, Sizes], dict[str, Any]]] = {
    "input_ids": _tokens,
    "pixel_values": image_of,
    "pixel_values_videos": lambda c, b, s: {"pixel_values_videos": next(iter(image_of(c, b, s).values()))},
    "input_features": _spectrogram,
    "input_values": _sound,
    "past_values": _series,
}
"""By the name of a model's main input."""


GRID = 16
"""Patches along each side of an image, for models that take images of any size as rows of patches."""
TOGETHER = frozenset(
    {"input_ids", "pixel_values", "image_grid_thw", "mm_token_type_ids", "token_type_ids", "pixel_attention_mask", "spatial_shapes"}
)  # fmt: skip
"""Inputs that fit one another; if one of them is given, the others are not made."""


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
        made |= image_of(config, batch, sizes)
    for name in ("mm_token_type_ids", "token_type_ids"):
        if name in takes:
            made[name] = kinds
    return made


def _rows_of_patches(config: Any) -> bool:
    """Qwen's models see an image as rows of patches, with its size in patches beside it."""
    vision: Any = getattr(config, "vision_config", None)
    return hasattr(vision, "spatial_merge_size") and hasattr(vision, "temporal_patch_size")
