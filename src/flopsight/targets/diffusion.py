"""Model classes of diffusers, from their default configuration or a file, with inputs made from it. Weights are random."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .. import units
from ..errors import InputError
from .address import Address
from .blueprint import Blueprint, Call, Sizes
from .changes import typed_arguments
from .complaints import unknown_model
from .config_files import cached_configuration, is_path, read_configuration
from .packages import library
from .users import users_code

TEXT_TOKENS = 77
"""Tokens of a prompt, as CLIP's text encoder gives them."""
LATENT = 64
"""Side of a latent image, if the configuration does not say."""


def diffusers_blueprint(address: Address) -> Blueprint:
    """A diffusers model by its class, or from a configuration that names its class."""
    diffusers = library("diffusers")
    name, values, origin = _configuration(address)
    if not hasattr(diffusers, name):
        raise unknown_model("diffusers", name, dir(diffusers))
    kind = getattr(diffusers, name)
    changes = typed_arguments(address.shown, kind, address.changes)
    known = inspect.signature(kind).parameters
    arguments = {key: value for key, value in values.items() if key in known} | changes

    def build() -> Any:
        with users_code(address.text):
            return kind(**arguments)

    return Blueprint(build, _inputs, fills_in=True, origin=origin)


def _configuration(address: Address) -> tuple[str, dict[str, Any], str]:
    if is_path(address.name):
        found = read_configuration(address.name)
    elif "/" in address.name:
        owner, model, *inside = address.name.split("/")
        cached = cached_configuration(f"{owner}/{model}", "/".join(inside))
        if cached is None:
            raise InputError(
                f"{address.name} is not in the hub's cache, and nothing is downloaded unasked. Name it with the folder of "
                f"its model, {owner}/{model}/unet, after: hf download {owner}/{model} {'/'.join([*inside, 'config.json'])}"
            )
        found = cached
    else:
        return address.name, {}, f"the default configuration of {address.name}"
    if "_class_name" not in found.values:
        raise InputError(f"{found.origin} is not a configuration of a diffusers model: it has no _class_name.")
    return str(found.values["_class_name"]), found.values, found.origin


def _inputs(model: Any, sizes: Sizes) -> Call:
    """What a denoiser or an autoencoder is called with, by the names in its forward."""
    takes = inspect.signature(model.forward).parameters
    made: dict[str, Any] = {}
    for name, parameter in takes.items():
        if name in MAKERS and (parameter.default is parameter.empty or name in ALWAYS):
            value = MAKERS[name](model, sizes.batch or 1, sizes)
            if value is not None:
                made[name] = value
    remark = ", ".join(f"{name} {units.shape(getattr(value, 'shape', ()))}" for name, value in made.items())
    return Call((), made, remark)


def _config(model: Any, *names: str, default: int | None = None) -> Any:
    for name in names:
        value = model.config.get(name)
        if value is not None:
            return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
    return default


def _latents(model: Any, batch: int, sizes: Sizes) -> Any:
    """An image in channels and sides, or a row of patches if the model takes those."""
    channels = _config(model, "in_channels", default=4)
    if "img_ids" in inspect.signature(model.forward).parameters:
        return torch.randn(batch, sizes.seq or (LATENT // 2) ** 2, channels)
    side = _config(model, "sample_size", default=LATENT)
    height, width = side if isinstance(side, list | tuple) else (side, side)
    moving = "3D" in type(model).__name__
    frames = [_config(model, "sample_frames", "num_frames", default=8)] if moving else []
    return torch.randn(batch, channels, *frames, height, width)


def _prompt(model: Any, batch: int, _: Sizes) -> Any:
    width = _config(
        model, "cross_attention_dim", "joint_attention_dim", "caption_channels", "text_embed_dim", "text_dim"
    )
    width = max(width) if isinstance(width, list | tuple) else width
    return torch.randn(batch, TEXT_TOKENS, width) if width else None


def _ids(name: str) -> Any:
    def make(model: Any, _: int, sizes: Sizes) -> Any:
        axes = len(_config(model, "axes_dims_rope", default=None) or (16, 56, 56))
        length = TEXT_TOKENS if name == "txt_ids" else sizes.seq or (LATENT // 2) ** 2
        return torch.zeros(length, axes)

    return make


def _labels(model: Any, batch: int, _: Sizes) -> Any:
    kinds = _config(model, "num_class_embeds", "num_embeds_ada_norm")
    return torch.zeros(batch, dtype=torch.int64) if kinds else None


MAKERS: Mapping[str, Callable[[Any, int, Sizes], Any]] = {
    "sample": _latents,
    "hidden_states": _latents,
    "timestep": lambda _, batch, __: torch.ones(batch),
    "encoder_hidden_states": _prompt,
    "pooled_projections": lambda model, batch, _: torch.randn(
        batch, _config(model, "pooled_projection_dim", default=768)
    ),
    "img_ids": _ids("img_ids"),
    "txt_ids": _ids("txt_ids"),
    "guidance": lambda model, batch, _: torch.ones(batch) if _config(model, "guidance_embeds") else None,
    "class_labels": _labels,
}
ALWAYS = {"timestep", "encoder_hidden_states", "pooled_projections", "img_ids", "txt_ids", "guidance", "class_labels"}
"""Arguments that have a default and are needed all the same."""
