"""A model that is at hand, or a function that makes one, in the place of a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from ..capture.twin.meta_copy import NoTwinError, make_twin
from ..errors import InputError
from .address import MODULE, Address
from .blueprint import Blueprint, Call, Sizes
from .hugging_face import labels_for
from .model_inputs import default_call
from .users import users_code


def given_blueprint(given: nn.Module | Callable[[], nn.Module]) -> tuple[Address, Blueprint]:
    """How a copy without data is made of a model, or a model by its factory, and what it is called with."""
    name = getattr(given, "__name__", type(given).__name__)

    def build() -> nn.Module:
        if isinstance(given, nn.Module):
            return _copy(given, name)
        with users_code(name):
            made = given()
        if not isinstance(made, nn.Module):
            raise InputError(
                f"{name}() returns no torch.nn.Module, but {type(made).__name__}; give a model or its factory."
            )
        return made

    def labels(model: nn.Module, call: Any) -> dict[str, Any]:
        return labels_for(model, call) if _configuration(model) is not None else {}

    def inputs(model: nn.Module, sizes: Sizes) -> Call:
        config = _configuration(model)
        return default_call(model, config, sizes) if config is not None else Call()

    blueprint = Blueprint(build, inputs, labels, fills_in=_configuration(given) is not None)
    return Address(name, MODULE, "", name), blueprint


def _copy(model: nn.Module, name: str) -> nn.Module:
    try:
        return make_twin(model)[0]
    except NoTwinError as problem:
        raise InputError(f"{name} is needed as a copy without data, and there can be none ({problem}).") from problem


def _configuration(model: Any) -> Any:
    """The configuration of a model of transformers."""
    return getattr(model, "config", None) if hasattr(model, "main_input_name") else None
