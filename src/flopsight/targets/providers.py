"""Models by name from the places where people have them: our zoo, transformers, torchvision, timm. Weights are random."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import InputError, did_you_mean
from .users import users_code

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 4_000_000_000
"""Parameters above which a model is not built in memory unasked."""


def zoo_model(name: str) -> tuple[Any, ...]:
    """One of the embedded models with a small batch."""
    from .. import zoo

    return zoo.build(name)


def torchvision_model(name: str) -> tuple[Any, ...]:
    """A torchvision model with one image of the size that it was trained on."""
    import torch

    models = _torchvision().models
    if name not in models.list_models():
        raise InputError(f"torchvision has no model {name!r}.{did_you_mean(name, models.list_models())}")
    with users_code(f"torchvision:{name}"):
        model = models.get_model(name, weights=None)
        size = _trained_size(models, name)
    return model, (torch.randn(1, 3, size, size),)


def _trained_size(models: Any, name: str) -> int:
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    sizes = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None)
    return int(sizes[0]) if sizes else 224


def timm_model(name: str) -> tuple[Any, ...]:
    """A timm model with one image of the size in its configuration."""
    import torch

    _torchvision(needed=False)
    timm = _package("timm")
    if not timm.is_model(name):
        raise InputError(f"timm has no model {name!r}.{did_you_mean(name, timm.list_models())}")
    with users_code(f"timm:{name}"):
        model = timm.create_model(name, pretrained=False)
    return model, (torch.randn(1, *model.default_cfg["input_size"]),)


def hugging_face_model(text: str) -> tuple[Any, ...]:
    """A transformers model by its type, `llama`, from its default configuration; `llama:num_hidden_layers=2` changes it."""
    import torch

    _torchvision(needed=False)
    transformers = _package("transformers")
    kind, _, changes = text.partition(":")
    config = _configuration(transformers, kind, changes)
    auto = _head(transformers, config)
    with users_code(f"hf:{text}"), torch.device("meta"):
        twin = auto.from_config(config)
    params = sum(parameter.numel() for parameter in twin.parameters())
    on_meta = torch.get_default_device().type == "meta"
    if params > LARGEST and not on_meta:
        raise InputError(
            f"hf:{text} has {params / 1e9:.1f} G parameters, more than a machine like this should hold. "
            f"Add --meta to count it without memory, or shrink it: hf:{kind}:num_hidden_layers=2"
        )
    with users_code(f"hf:{text}"):
        model = twin if on_meta else auto.from_config(config)
        return model, _language_or_vision_inputs(model, config)


def _configuration(transformers: Any, kind: str, changes: str) -> Any:
    known = transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    if kind not in known:
        raise InputError(f"transformers has no model type {kind!r}.{did_you_mean(kind, known)}")
    config = transformers.AutoConfig.for_model(kind)
    changed = {}
    for change in filter(None, changes.split(",")):
        name, equals, value = change.partition("=")
        if not equals or not hasattr(config, name):
            raise InputError(f"The configuration of {kind} has no {name!r}.{did_you_mean(name, vars(config))}")
        changed[name] = _literal(value)
    # built anew, because some sizes are worked out from others when a configuration is made
    with users_code(f"hf:{kind}:{changes}"):
        return transformers.AutoConfig.for_model(kind, **changed)


def _literal(text: str) -> Any:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _head(transformers: Any, config: Any) -> Any:
    """Decoders come with their vocabulary head, which is part of what they cost; everything else without one."""
    names = transformers.models.auto.modeling_auto
    two_sided = config.is_encoder_decoder or config.model_type in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    is_decoder = config.model_type in names.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not two_sided
    return transformers.AutoModelForCausalLM if is_decoder else transformers.AutoModel


def _language_or_vision_inputs(model: Any, config: Any) -> dict[str, Tensor]:
    """One sequence of 128 tokens or one image; nothing where the model wants something else."""
    import torch

    name = model.main_input_name
    if name == "input_ids":
        vocabulary = config.get_text_config().vocab_size
        inputs = {"input_ids": torch.randint(vocabulary, (1, 128))}
        if config.is_encoder_decoder:
            inputs["decoder_input_ids"] = torch.randint(vocabulary, (1, 128))
        return inputs
    if name == "pixel_values" and isinstance(getattr(config, "image_size", None), int):
        return {name: torch.randn(1, getattr(config, "num_channels", 3), config.image_size, config.image_size)}
    return {}


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name != name:
            raise
        raise InputError(f"{name} is not installed here. Install it: pip install {name}") from None


def _torchvision(*, needed: bool = True) -> Any:
    """torchvision, also where its compiled half does not fit this torch: its models need only the names of two ops."""
    try:
        return import_module("torchvision")
    except ModuleNotFoundError:
        if needed:
            return _package("torchvision")
        return None
    except RuntimeError as problem:
        if "torchvision::nms" not in str(problem):
            raise
    import torch

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    for op in ("nms", "qnms"):
        torch.library.define(f"torchvision::{op}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return import_module("torchvision")
