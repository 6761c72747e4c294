"""The axes of a sweep: `batch=1,8` as values, and what a point's values change in a target and its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..distributed.mesh_axes import check_dry
from ..errors import InputError, whole_number
from ..hardware.named import named_device
from ..units import parse_count
from .address import Address
from .changes import literal, split_outside_brackets
from .inputs import Spec, TensorSpec, parse_inputs, parse_model_dtype

BATCH, SEQ, DTYPE = "batch", "seq", "dtype"
LAYERS = "layers"
EXAMPLE = "batch=1,8,64 seq=2k:32k:x2 dtype=bf16 num_hidden_layers=2,4"
RANGE = "Ranges look like batch=1:64:x2 (doubling) or layers=2:8:2 (steps of two), both ends included."
MOST = 1000
"""Values that a range may have."""


def parse_axes(words: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The axes that the words of a command line describe."""
    axes: dict[str, tuple[Any, ...]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        texts = [text.strip() for text in split_outside_brackets(values)]
        if not equals or not name or not all(texts):
            raise InputError(f"{word!r} is not an axis. Axes look like {EXAMPLE}.")
        if name in axes:
            raise InputError(f"The axis {name} is given twice.")
        axes[name] = tuple(value for text in texts for value in _axis_values(name, text))
    if not axes:
        raise InputError(f"A sweep needs an axis. Axes look like {EXAMPLE}.")
    return axes


def _axis_values(name: str, text: str) -> list[Any]:
    """One value, or those of a range: `1:64:x2` doubles from 1 to 64, `2:8:2` and `2:8:+2` go up by two."""
    parts = text.split(":")
    if len(parts) != 3 or text[0] in "'\"[({":
        return [_axis_value(name, text)]
    try:
        first, last, step = parse_count(parts[0]), parse_count(parts[1]), parse_count(parts[2].lstrip("x*+"))
    except InputError:
        raise InputError(f"{text!r} of {name} is not a range. {RANGE}") from None
    multiplied = parts[2].startswith(("x", "*"))
    if first < 1 or last < first or step < (2 if multiplied else 1):
        raise InputError(f"{text!r} of {name} does not lead from {parts[0]} to {parts[1]}. {RANGE}")
    values = [first]
    while len(values) <= MOST and (following := values[-1] * step if multiplied else values[-1] + step) <= last:
        values.append(following)
    if len(values) > MOST:
        raise InputError(f"{text!r} of {name} has more than {MOST:,} values. {RANGE}")
    return values


def _axis_value(name: str, text: str) -> Any:
    if name == DTYPE:
        return parse_model_dtype(text)
    try:
        number = parse_count(text)
    except InputError:
        if name in (BATCH, SEQ):
            raise
        return literal(text)
    if name in (BATCH, SEQ) and number < 1:
        raise InputError(f"{name} must be 1 or more, not {text}.")
    return number


def check_sweep(
    axes: Mapping[str, Sequence[Any]],
    *,
    train: bool,
    dtype: str | None,
    optimizer: str | None,
    mesh: Mapping[str, int] | None,
    generate: int | None,
    on: str | None,
) -> None:
    """Refuse options that do not go together, before anything is built."""
    if dtype and DTYPE in axes:
        raise InputError("The dtype is an axis of this sweep and an option too; leave one of them out.")
    if optimizer and not train:
        raise InputError("An optimizer steps after a backward: train too (train=True, --train).")
    if generate is not None:
        whole_number("generate", generate, 1)
        if train or mesh:
            raise InputError("A generation decodes tokens; leave out the training and the mesh, or generate.")
    if mesh is not None:
        check_dry(mesh, 0)
    if on is not None:
        named_device(on)


def changed_address(address: Address, values: Mapping[str, Any]) -> Address:
    """The target with the values of a point that are not sizes of inputs as further changes."""
    more = {name: str(value) for name, value in values.items() if name not in (BATCH, SEQ, DTYPE)}
    if address.kind == "hf" and LAYERS in more:
        more["num_hidden_layers"] = more.pop(LAYERS)
    return replace(address, changes={**address.changes, **more})


def sized_inputs(texts: Sequence[str], values: Mapping[str, Any]) -> list[Spec]:
    """The inputs of a point: axes in braces get their values; without braces, `batch` and `seq` replace the first sizes."""
    filled = list(texts)
    for name, value in values.items():
        filled = [text.replace(f"{{{name}}}", str(value)) for text in filled]
    left = [text for text in filled if "{" in text]
    if left:
        raise InputError(f"{left[0]!r} names no axis of this sweep in its braces; there are {', '.join(values)}.")
    in_braces = {name for name in values for text in texts if f"{{{name}}}" in text}
    return [
        _resized(spec, None if BATCH in in_braces else values.get(BATCH), None if SEQ in in_braces else values.get(SEQ))
        for spec in parse_inputs(filled)
    ]


def _resized(spec: Spec, batch: int | None, seq: int | None) -> Spec:
    if not isinstance(spec, TensorSpec) or not spec.shape:
        return spec
    first = spec.shape[0] if batch is None else batch
    rest = spec.shape[1:]
    if seq is not None and rest:
        rest = (seq, *rest[1:])
    return replace(spec, shape=(first, *rest))
