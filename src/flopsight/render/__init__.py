"""A profile as text: one file a format, each imported when it is asked for; nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from ..errors import InputError, did_you_mean, whole_number
from ..tree import Profile

if TYPE_CHECKING:
    from rich.console import Console

RENDERERS = {
    "tree": "render.tree:render",
    "table": "render.table:render",
    "memory": "render.memory:render",
    "deepspeed": "render.deepspeed:render",
    "tids": "render.tids:render",
    "aprofiler": "render.aprofiler:render",
    "markdown": "render.markdown:render",
    "json": "store:dumps",
    "csv": "render.csv:render",
    "trace": "render.trace:render",
}
"""Where the function lives that draws a format: it takes the profile, then options by name, and returns text."""
DEPTHS = ("depth", "module_depth")
DEEPEST = -1
"""The older profilers' way to say: down to the deepest."""


def render(profile: Profile, format: str = "tree", **options: Any) -> str:
    """Draw a profile; options that are None are as if not given, and `module_depth` is the older profilers' word for `depth`."""
    draw = _renderer(format)
    text = draw(profile, **_checked(format, draw, options))
    assert isinstance(text, str)
    return text


def check(format: str, **options: Any) -> None:
    """Refuse a format, an option that it does not have, or a number that it cannot be: before any work is done."""
    _checked(format, _renderer(format), options)


def to_console(profile: Profile, format: str, console: Console, **options: Any) -> None:
    """Draw a profile on a terminal, in colour where the format has any."""
    from .console import show

    draw = _renderer(format)
    show(profile, format, console, _checked(format, draw, options))


def _renderer(format: str) -> Callable[..., Any]:
    if format not in RENDERERS:
        raise InputError(
            f"There is no format {format!r}.{did_you_mean(format, RENDERERS)} Formats: {', '.join(RENDERERS)}."
        )
    module, function = RENDERERS[format].split(":")
    found: Callable[..., Any] = getattr(import_module(f"flopsight.{module}"), function)
    return found


def _checked(format: str, draw: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, under our names; refuses those that the format does not have."""
    given = {name: value for name, value in options.items() if value is not None}
    _check_numbers(given)
    if "module_depth" in given:
        given["depth"] = given.pop("module_depth")
    if given.get("depth") == DEEPEST:
        del given["depth"]
    known = [name for name, option in signature(draw).parameters.items() if option.kind is Parameter.KEYWORD_ONLY]
    for name in given:
        if name not in known:
            takes = f"It takes {', '.join(known)}." if known else "It takes none."
            raise InputError(f"The format {format} has no option {name!r}.{did_you_mean(name, known)} {takes}")
    return given


def _check_numbers(given: dict[str, Any]) -> None:
    for name in DEPTHS:
        if given.get(name, DEEPEST) != DEEPEST:
            whole_number(name, given[name], 0, f" or {DEEPEST} for the deepest")
    if "top_modules" in given:
        whole_number("top_modules", given["top_modules"], 0)
