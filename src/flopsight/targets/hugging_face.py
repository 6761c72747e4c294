"""Models of transformers from a configuration: a type's default, a preset, a file, or the hub's cache. Weights are random."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping
from typing import Any

import torch

from ..errors import InputError, did_you_mean
from . import config_files, installed
from .address import Address
from .blueprint import Blueprint
from .changes import literal, typed
from .complaints import unknown_key
from .model_inputs import default_call
from .packages import transformers_for
from .users import users_code

NOT_OURS = ("quantization_config", "auto_map", "transformers_version", "_name_or_path")
"""What a configuration file says beside the model: weights are not loaded, so they are not quantized either."""

ACTIVATION = re.compile(r"(?:^|[._])(act|hidden_activation|activation_function)$")
"""Keys whose value is the name of an activation."""


def hugging_face_blueprint(address: Address, *, generates: bool = False) -> Blueprint:
    """A transformers model from the configuration that a target names, with its changes."""
    found = config_files.find_configuration(address.name, installed.model_types())
    config_files.check_configuration(address.name, found, installed.model_types())
    transformers = transformers_for(found.values["model_type"])
    transformers.logging.set_verbosity_error()  # it remarks on token ids of configurations, which count for nothing here
    config = configuration(transformers, address, found.values)
    kind = model_class(transformers, config, found.values, generates=generates)

    def build() -> Any:
        with users_code(address.text):
            return kind._from_config(config) if hasattr(kind, "_from_config") else kind.from_config(config)

    return Blueprint(
        build, lambda model, sizes: default_call(model, config, sizes), labels_for, fills_in=True, origin=found.origin
    )


def configuration(transformers: Any, address: Address, values: Mapping[str, Any]) -> Any:
    """The configuration with the target's changes, made anew: some of its sizes are worked out from others."""
    given = {name: value for name, value in copy.deepcopy(dict(values)).items() if name not in NOT_OURS}
    kind = given.pop("model_type")
    with users_code(address.text):
        plain = transformers.AutoConfig.for_model(kind, **copy.deepcopy(given))
    for key, text in address.changes.items():
        _change(kind, given, plain, key, text)
        _check_activation(key, text)
    if not address.changes:
        return plain
    try:
        return transformers.AutoConfig.for_model(kind, **given)
    except Exception as problem:
        reason = " ".join(str(problem.__cause__ or problem).split())
        raise InputError(f"{address.text} is refused by the configuration of {kind}: {reason}") from None


def _check_activation(key: str, text: str) -> None:
    """Refuse an activation that transformers does not have; building the model would end with a bare KeyError."""
    from transformers.activations import ACT2FN

    if ACTIVATION.search(key) and text not in ACT2FN:
        raise InputError(f"transformers has no activation {text!r} for {key}.{did_you_mean(text, ACT2FN)}")


def _change(kind: str, given: dict[str, Any], plain: Any, key: str, text: str) -> None:
    """Put one change into the values; `text_config.num_hidden_layers` is a key of a configuration inside."""
    outer, *inner = key.split(".")
    if not hasattr(plain, outer):
        raise unknown_key(kind, key, [name for name in vars(plain) if not name.startswith("_")])
    if not inner:
        outer = type(plain).attribute_map.get(outer, outer) if outer not in given else outer
        hint = getattr(type(plain), "__annotations__", {}).get(outer)
        known = None if isinstance(hint, str) else hint
        given[outer] = typed(f"the configuration of {kind}", outer, text, known, getattr(plain, outer))
        return
    below = getattr(plain, outer)
    nested = dict(given.get(outer) or {})
    if isinstance(below, dict):
        nested[".".join(inner)] = literal(text)
    else:
        _change(f"{kind}'s {outer}", nested, below, ".".join(inner), text)
    given[outer] = nested


def model_class(transformers: Any, config: Any, values: Mapping[str, Any], *, generates: bool = False) -> Any:
    """The class that the configuration names; else decoders with their vocabulary head and everything else without one.

    An encoder-decoder that `generates` has its head too.
    """
    for name in values.get("architectures") or ():
        if hasattr(transformers, name):
            return getattr(transformers, name)
    names = transformers.models.auto.modeling_auto
    two_sided = config.is_encoder_decoder or config.model_type in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    tables = ["AutoModel", "AutoModelForImageTextToText", "AutoModelForSpeechSeq2Seq", "AutoModelForTextToWaveform"]
    tables.insert(len(tables) if two_sided else 0, "AutoModelForCausalLM")
    if generates and config.is_encoder_decoder:
        tables = ["AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq", *tables]
    for table in tables:
        mapping = getattr(transformers, table)._model_mapping
        if type(config) in mapping and _is_made_from(mapping[type(config)], config):
            return getattr(transformers, table)
    raise InputError(
        f"transformers has a configuration of {config.model_type}, but no model that is made from it alone."
    )


def _is_made_from(kind: Any, config: Any) -> bool:
    """Whether a class takes this configuration; the decoder of MusicGen is registered for that of the whole."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return all(isinstance(config, one.config_class or object) for one in kinds)


TOKENS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "ForImageTextToText")
"""How classes end whose labels are token ids, one for each position of the logits."""
CLASSES = tuple(f"For{what}Classification" for what in ("Sequence", "Image", "Video", "Audio"))
"""How classes end whose labels are one class a sample."""


def labels_for(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """`labels` for a model that takes them, from the inputs it gets; nothing for other models, or if they are given."""
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
