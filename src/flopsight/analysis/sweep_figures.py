"""The figures of a point of a sweep: of its profile, or of its generation, and on a named device what fits and the least times."""

from __future__ import annotations

from typing import Any

from ..hardware.named import named_ceilings
from ..results.generation import Generation
from ..results.sweep import Point
from .figures import BOOK, shown


def row_of(point: Point, device: str = "") -> dict[str, Any]:
    """The values and the figures of a point, as plain numbers; `device` is the name of one, or empty."""
    if point.generation is not None:
        return {**point.values, **_of_generation(point.generation, device or None)}
    if point.profile is None:
        return {**point.values, "error": point.error}
    figures = {figure.key: figure.telling(point.profile) for figure in shown("sweep")}
    if device:
        fits = _fits(point.profile.peak_bytes, memory_of(device))
        figures |= {"fits": fits, "least_time": point.profile.limit(device)}
    return {**point.values, **figures}


def memory_of(device: str) -> int | None:
    """Bytes of a named device's memory."""
    return named_ceilings(device).memory if device else None


def _fits(peak: int | None, memory: int | None) -> bool | None:
    return peak <= memory if peak is not None and memory is not None else None


def _of_generation(made: Generation, device: str | None) -> dict[str, Any]:
    serving = made.serving(device)
    first, decode = made.prefill_time, made.decode_time
    return {
        "params": made.prefill.params,
        "active_params": BOOK["active_params"].telling(made.last),
        "cache_bytes": made.cache_bytes,
        "peak_bytes": serving.peak,
        "fits": _fits(serving.peak, serving.memory),
        "first_token": serving.first_token,
        "predicted_first_token": serving.predicted(made.prefill),
        "measured_first_token": first.median if first else None,
        "per_output_token": serving.per_output_token(),
        "predicted_per_output_token": serving.predicted_step,
        "measured_per_output_token": decode.median / made.new_tokens if decode else None,
        "most_tokens_per_second": serving.tokens_per_second,
        "measured_tokens_per_second": made.decode_tokens_per_second,
    }
