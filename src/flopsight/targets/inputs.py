"""What `-i` means: shapes, dtypes and names of the tensors that a model is called with."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import units
from ..errors import InputError, did_you_mean

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

EXAMPLE = "8x3x224x224, 1x128:int64 or input_ids=4x128:int64,attention_mask=4x128:int64"
ALIASES = {
    "float": "float32", "fp32": "float32", "double": "float64", "fp64": "float64", "half": "float16", "fp16": "float16",
    "bf16": "bfloat16", "long": "int64", "int": "int64", "short": "int16", "byte": "uint8",
}  # fmt: skip
DTYPES = (
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    "int8", "uint8", "int16", "int32", "int64", "bool",
)  # fmt: skip
_ITEM = re.compile(
    r"(?:(?P<name>[^=:]+)=)?(?P<shape>\d+k?(?:x\d+k?)*|scalar)(?::(?P<dtype>[a-zA-Z]\w*))?(?::(?P<below>\d+))?"
)
_COMMAS = re.compile(r"[\[(]\s*\d+[\d\s,]*[\])]|\d+(\s*,\s*\d+){2,}")
"""A shape as Python writes it, with commas."""
_FLAGS = {"true": True, "false": False, "none": None}


TOKEN_NAMES = frozenset({"input_ids", "decoder_input_ids", "tokens", "idx", "ids", "token_ids"})
KNOWN_VALUES = 1 << 20
"""Elements up to which ids on meta keep their values, for models that look at them."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor to make: `name=8x128:int64:30522` is ids below 30522."""

    shape: tuple[int, ...]
    dtype: str | None = None
    """None is the dtype of the model."""
    below: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class FlagSpec:
    """One argument that is not a tensor: `use_cache=false`."""

    name: str
    value: bool | None


Spec = TensorSpec | FlagSpec


def parse_inputs(texts: Sequence[str]) -> list[Spec]:
    """The inputs that one or several `-i` describe, separated by commas."""
    for text in texts:
        if _COMMAS.fullmatch(text.strip()):
            shape = "x".join(re.findall(r"\d+", text))
            raise InputError(f"{text!r} is not a shape: x joins its sizes, -i {shape}. Commas separate inputs.")
    return [_parse_item(item.strip()) for text in texts for item in text.split(",")]


def parse_dtype(text: str) -> str:
    """The full name of a dtype; `bf16` is `bfloat16`."""
    name = ALIASES.get(text.lower(), text.lower())
    if name not in DTYPES:
        known = [*DTYPES, *ALIASES]
        raise InputError(
            f"There is no dtype {text!r}.{did_you_mean(text, known) or ' There are ' + ', '.join(DTYPES) + '.'}"
        )
    return name


def parse_model_dtype(text: str) -> str:
    """The full name of a dtype that the weights of a model can have."""
    name = parse_dtype(text)
    if "float" not in name:
        raise InputError(f"A model cannot be {name}; it can be float32, bfloat16, float16 or float64.")
    return name


def _parse_item(item: str) -> Spec:
    name, _, word = item.partition("=")
    if word.lower() in _FLAGS:
        return FlagSpec(name.strip(), _FLAGS[word.lower()])
    found = _ITEM.fullmatch(item)
    if not found:
        raise InputError(f"{item!r} is not an input. Inputs look like {EXAMPLE}.")
    shape = () if found["shape"] == "scalar" else tuple(map(units.parse_count, found["shape"].split("x")))
    return TensorSpec(
        shape,
        parse_dtype(found["dtype"]) if found["dtype"] else None,
        int(found["below"]) if found["below"] else None,
        found["name"].strip() if found["name"] else None,
    )


def batch_and_tokens(specs: Sequence[Spec]) -> tuple[int | None, int | None]:
    """The batch of the given inputs, and the length of their sequences of tokens, if they say so."""
    tensors = [spec for spec in specs if isinstance(spec, TensorSpec) and spec.shape]
    ids = [spec.shape[1] for spec in tensors if len(spec.shape) == 2 and spec.dtype in (None, "int64", "int32")]
    return (tensors[0].shape[0] if tensors else None), (ids[0] if ids else None)


def make_inputs(
    specs: Sequence[Spec], model: nn.Module, *, by_name: bool = False
) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    """Random tensors where the model is, positional and by name; `by_name` names the positional ones too."""
    named = _parameter_names(model)
    args: list[Tensor] = []
    kwargs: dict[str, Any] = {}
    for spec in specs:
        if isinstance(spec, FlagSpec):
            kwargs[spec.name] = spec.value
        elif spec.name:
            kwargs[spec.name] = _tensor(spec, spec.name, model)
        else:
            name = named[len(args)] if len(args) < len(named) else ""
            args.append(_tensor(spec, name, model))
    if by_name and len(args) <= len(named):
        return (), {**dict(zip(named, args, strict=False)), **kwargs}
    return tuple(args), kwargs


def _parameter_names(model: nn.Module) -> list[str]:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(model.forward).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in positional]


def _tensor(spec: TensorSpec, name: str, model: nn.Module) -> Tensor:
    import torch

    device = next((parameter.device for parameter in model.parameters()), None)
    if spec.dtype is None and not _takes_ids(name):
        floating = [parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()]
        return torch.randn(spec.shape, dtype=floating[0] if floating else None, device=device)
    dtype: torch.dtype = getattr(torch, spec.dtype or "int64")
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(spec.shape, dtype=dtype, device=device)
    known = device is not None and device.type == "meta" and torch.Size(spec.shape).numel() <= KNOWN_VALUES
    place = "cpu" if known else device
    if dtype == torch.bool or "mask" in name:
        made = torch.ones(spec.shape, dtype=dtype, device=place)
    else:
        made = torch.randint(spec.below or _safe_below(name, model), spec.shape, device=place).to(dtype)
    if not known:
        return made
    from ..capture.twin.meta_copy import on_meta

    twin: Tensor = on_meta(made)
    return twin


def _takes_ids(name: str) -> bool:
    """Whether an argument is one of token ids or a mask by its name, so that a shape alone says enough."""
    return name in TOKEN_NAMES or name.endswith("_ids") or name == "attention_mask"


def _safe_below(name: str, model: nn.Module) -> int:
    """A bound that keeps ids inside the model's tables: the largest but that of positions for token ids, else the smallest."""
    from torch import nn

    from ..capture.model.positions import is_of_positions

    tables = {path: one.num_embeddings for path, one in model.named_modules() if isinstance(one, nn.Embedding)}
    if not tables:
        return 2
    words = [size for path, size in tables.items() if not is_of_positions(path)]
    return max(words or tables.values()) if name in TOKEN_NAMES else min(tables.values())


def described(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """What a model is called with, in words: `8x3x224x224, mask=8x128 int64`."""
    words = [_described(value) for value in args] + [f"{name}={_described(value)}" for name, value in kwargs.items()]
    return ", ".join(words)


def _described(value: Any) -> str:
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return type(value).__name__ if value is not None and not isinstance(value, bool) else str(value)
    return f"{units.shape(value.shape)} {str(value.dtype).removeprefix('torch.')}"
