"""How a sweep is written and read: its axes, and a point with its values and its profile, its generation or its error."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..results.sweep import AxisValue, Point, Sweep
from .codec import MOST, Convert, DamagedError, listed, member, shown, table, text


def sweep_codec(write: Convert, decode_profile: Convert, decode_generation: Convert) -> tuple[Convert, Convert]:
    """Functions that write and read a sweep, with those of a profile and of a generation."""

    def encode(sweep: Sweep) -> dict[str, Any]:
        points = [
            {
                "values": dict(one.values),
                "error": one.error,
                "profile": one.profile and write(one.profile),
                **({"generation": write(one.generation)} if one.generation is not None else {}),
            }
            for one in sweep.points
        ]
        axes = {name: list(values) for name, values in sweep.axes.items()}
        return {"axes": axes, "points": points, "device": sweep.device}

    def decode(page: Any) -> Sweep:
        axes = {name: listed(_axis_value, values, least=1) for name, values in member(page, "axes", table).items()}
        points = member(page, "points", partial(listed, decode_point))
        if not axes or any(list(point.values) != list(axes) for point in points):
            raise DamagedError(".points do not have one value for every axis")
        return Sweep(axes, points, text(page.get("device", "")))

    def decode_point(page: Any) -> Point:
        values = {name: _axis_value(value) for name, value in member(page, "values", table).items()}
        error = member(page, "error", text)
        profile = member(page, "profile", lambda part: None if part is None else decode_profile(part))
        made = decode_generation(page["generation"]) if "generation" in page else None
        if (profile is None and made is None) != bool(error):
            raise DamagedError(" has neither a profile nor an error, or both")
        return Point(values, profile, error, made)

    return encode, decode


def _axis_value(value: Any) -> AxisValue:
    if not isinstance(value, AxisValue) or (isinstance(value, int | float) and abs(value) > MOST):
        raise DamagedError(f" is {shown(value)}, not a number or a text")
    return value
