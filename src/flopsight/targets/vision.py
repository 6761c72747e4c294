"""Models of torchvision and timm by name, with one image of the size that they were made for. Weights are random."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from .. import units
from .address import Address
from .blueprint import Blueprint, Call, Sizes
from .changes import type_hints, typed, typed_arguments
from .complaints import unknown_argument, unknown_model
from .packages import library, torchvision
from .users import TargetRaised, users_code


def torchvision_blueprint(address: Address) -> Blueprint:
    """A torchvision model with one image of the size that it was trained on."""
    models = torchvision().models
    if address.name not in models.list_models():
        raise unknown_model(address.kind, address.name, models.list_models())
    builder = models.get_model_builder(address.name)
    arguments = typed_arguments(address.shown, builder, address.changes)
    # a detection or segmentation model would download the weights of its backbone
    backbone = {"weights_backbone": None} if "weights_backbone" in inspect.signature(builder).parameters else {}

    def build() -> Any:
        with _known_arguments(address, builder), users_code(address.text):
            return models.get_model(address.name, weights=None, **(backbone | arguments))

    size = _trained_size(models, address.name)
    return Blueprint(build, lambda _, sizes: _images(sizes, size))


def _trained_size(models: Any, name: str) -> tuple[int, ...]:
    """Channels, height and width, and frames for a video model."""
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    sizes = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None)
    side = int(sizes[0]) if sizes else 224
    return (3, 16, side, side) if "video" in models.get_model_builder(name).__module__ else (3, side, side)


def timm_blueprint(address: Address) -> Blueprint:
    """A timm model with one image of the size in its configuration."""
    timm = library("timm")
    if not timm.is_model(address.name):
        raise unknown_model(address.kind, address.name, timm.list_models())
    arguments = _typed_by_class(address, timm.model_entrypoint(address.name))

    def build() -> Any:
        with _known_arguments(address, timm.model_entrypoint(address.name)), users_code(address.text):
            return timm.create_model(address.name, pretrained=False, **arguments)

    return Blueprint(build, lambda model, sizes: _images(sizes, _image(model, arguments)))


def _images(sizes: Sizes, size: tuple[int, ...]) -> Call:
    shape = (sizes.batch or 1, *size)
    return Call((torch.randn(shape),), remark=f"input {units.shape(shape)}")


def _typed_by_class(address: Address, builder: Callable[..., Any]) -> dict[str, Any]:
    """The changes, typed by the model classes in the builder's file: timm hands them on without looking at them."""
    found = vars(sys.modules[builder.__module__]).values()
    classes = [kind for kind in found if isinstance(kind, type) and issubclass(kind, nn.Module)]
    models = [kind for kind in classes if "num_classes" in inspect.signature(kind).parameters]
    hints = {name: hint for kind in models for name, hint in type_hints(kind).items()}
    return {name: typed(address.shown, name, text, hints.get(name)) for name, text in address.changes.items()}


@contextmanager
def _known_arguments(address: Address, builder: Callable[..., Any]) -> Iterator[None]:
    """Answer an argument that the model's class does not have with the nearest it has."""
    try:
        yield
    except TargetRaised as problem:
        refused = re.search(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(problem.cause))
        if refused is None:
            raise
        kind = getattr(sys.modules[builder.__module__], refused[1], None)
        known = inspect.signature(kind).parameters if kind is not None else ()
        raise unknown_argument(address.shown, refused[2], known, listed=False) from None


def _image(model: Any, arguments: dict[str, Any]) -> tuple[int, int, int]:
    channels, height, width = model.default_cfg["input_size"]
    size = arguments.get("img_size", (height, width))
    height, width = size if isinstance(size, tuple | list) else (size, size)
    return int(arguments.get("in_chans", channels)), int(height), int(width)
