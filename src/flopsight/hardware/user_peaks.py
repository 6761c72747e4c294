"""Peaks that the user states: `FLOPSIGHT_PEAK_FLOPS="bf16=989e12,fp32=67e12"` or the same as a mapping."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from ..errors import ConfigError
from .dtypes import TABLE_KEYS, torch_name

VARIABLE = "FLOPSIGHT_PEAK_FLOPS"
SMALLEST = 1e6
"""Below this a number was surely meant in another unit: "989" for 989e12."""


def stated_peaks(peaks: Mapping[str, float] | str | None = None) -> dict[str, float]:
    """Dense FLOP/s by dtype, as the user states them: the argument, or else the environment variable.

    >>> stated_peaks("bf16=989e12")
    {'bfloat16': 989000000000000.0}
    """
    place = "peak_flops"
    if peaks is None:
        place, peaks = VARIABLE, os.environ.get(VARIABLE, "")
    pairs = peaks if isinstance(peaks, Mapping) else _split(peaks, place)
    stated: dict[str, float] = {}
    for dtype, value in pairs.items():
        stated |= dict.fromkeys(_alike(torch_name(dtype)), _rate(value, dtype, place))
    return stated


def _split(text: str, place: str) -> dict[str, str]:
    pairs = {}
    for part in filter(None, (part.strip() for part in text.replace(";", ",").split(","))):
        dtype, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f'{place} has {part!r} without a dtype. Write dtype=FLOP/s: {VARIABLE}="bf16=989e12".')
        pairs[dtype] = value
    return pairs


def _rate(value: object, dtype: str, place: str) -> float:
    try:
        rate = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        rate = math.nan
    if not SMALLEST <= rate < math.inf:
        raise ConfigError(
            f"{place} gives {dtype} a peak of {value}. State dense FLOP/s: {dtype}=989e12 is 989 TFLOP/s."
        )
    return rate


def _alike(dtype: str) -> list[str]:
    """Every float8 for "fp8": dtypes that share their rate in the table share a statement."""
    return [other for other, keys in TABLE_KEYS.items() if keys == TABLE_KEYS[dtype]]
