"""What stands after a target's second colon: `width=32,sizes=[1,2]`, split, checked by name and typed by a signature."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..units import parse_count
from .complaints import missing_arguments, unknown_argument, wrong_value

EXAMPLE = "width=32,depth=4"
_WORDS = {"true": True, "false": False, "none": None, "null": None}
_OPENING, _CLOSING = "([{", ")]}"


def parse_changes(text: str) -> dict[str, str]:
    """Names and their values as text; a comma inside brackets or quotes belongs to the value."""
    changes: dict[str, str] = {}
    for item in split_outside_brackets(text):
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise InputError(f"{item.strip()!r} changes nothing. Changes look like {EXAMPLE}.")
        if name.strip() in changes:
            raise InputError(f"{name.strip()} is given twice in {text!r}.")
        changes[name.strip()] = value.strip()
    return changes


def split_outside_brackets(text: str) -> list[str]:
    """The pieces of a text between commas that stand in no bracket and no quote."""
    pieces, piece, depth, quote = [], "", 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        if letter == "," and depth <= 0 and not quote:
            pieces.append(piece)
            piece = ""
        else:
            piece += letter
    return [*pieces, piece]


def literal(text: str) -> Any:
    """A value whose type is nowhere written: a number, true, false, none, a Python literal, or else the text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def typed_arguments(shown: str, function: Callable[..., Any], changes: Mapping[str, str]) -> dict[str, Any]:
    """The changes as keyword arguments of a class or function, typed by its signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return {name: literal(text) for name, text in changes.items()}
    return typed_by_signature(shown, signature, type_hints(function), changes)


def typed_by_signature(
    shown: str, signature: inspect.Signature, hints: Mapping[str, Any], changes: Mapping[str, str]
) -> dict[str, Any]:
    """The changes as keyword arguments, typed by a signature that a live class or the text of a file has.

    Fields of a dataclass that is an argument are named with it, `config.layers=2`, or alone if nothing else has the name.
    """
    parameters = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    configs = _configs(hints, parameters)
    own = {name: text for name, text in changes.items() if name in parameters}
    inner = _by_config(changes, own, configs)
    rest = [name for name in changes if name not in own and not any(name in given for given in inner.values())]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        known = [*parameters, *(field.name for kind in configs.values() for field in dataclasses.fields(kind))]
        unknown = [name for name in rest if name not in known]
        if unknown:
            raise unknown_argument(shown, unknown[0], known)
    made = {
        name: _config(f"{shown}'s {name}", configs[name], given, parameters[name].default)
        for name, given in inner.items()
        if given or parameters[name].default is inspect.Parameter.empty
    }
    _check_required(shown, {*own, *made}, [name for name, p in parameters.items() if p.default is p.empty])
    values = {name: typed(shown, name, text, hints.get(name), parameters[name].default) for name, text in own.items()}
    return values | made | {name: literal(changes[name]) for name in rest}


def _configs(hints: Mapping[str, Any], parameters: Iterable[str]) -> dict[str, Any]:
    """The arguments that are dataclasses, with their classes."""
    found = {
        name: kind for name in parameters for kind in _alternatives(hints.get(name)) if dataclasses.is_dataclass(kind)
    }
    return {name: kind for name, kind in found.items() if isinstance(kind, type)}


def _by_config(
    changes: Mapping[str, str], own: Mapping[str, str], configs: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """The changes that are fields of each dataclass, under the names that they were given by."""
    found: dict[str, dict[str, str]] = {name: {} for name in configs if name not in own}
    for change, text in changes.items():
        for name, given in found.items():
            fields = {field.name for field in dataclasses.fields(configs[name])}
            if change not in own and change.removeprefix(f"{name}.") in fields:
                given[change] = text
                break
    return found


def _config(shown: str, kind: Any, given: Mapping[str, str], default: Any) -> Any:
    hints = type_hints(kind)
    changed = {
        name.rpartition(".")[2]: typed(shown, name.rpartition(".")[2], text, hints.get(name.rpartition(".")[2]))
        for name, text in given.items()
    }
    if isinstance(default, kind):
        return dataclasses.replace(default, **changed)
    _check_required(shown, changed, [f.name for f in dataclasses.fields(kind) if _has_no_default(f) and f.init])
    return kind(**changed)


def _check_required(shown: str, given: Iterable[str], required: Iterable[str]) -> None:
    missing = [name for name in required if name not in set(given)]
    if missing:
        raise missing_arguments(shown, missing)


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def typed(shown: str, name: str, text: str, hint: Any, default: Any = inspect.Parameter.empty) -> Any:
    """A value by the type that its annotation states, else by that of its default, else as a literal."""
    if hint is None or hint is inspect.Parameter.empty:
        hint = type(default) if isinstance(default, bool | int | float | str | enum.Enum) else Any
        hint = int | float if hint is int else hint  # `dropout=0` may well become 0.1
    for kind in _alternatives(hint):
        try:
            return _READERS.get(kind, _other)(text, kind)
        except (ValueError, SyntaxError, InputError):
            continue
    raise wrong_value(shown, name, _written(hint), text)


def _alternatives(hint: Any) -> list[Any]:
    """The types that a hint allows, the stricter ones first: text fits everything."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        order = [type(None), bool, int, float]
        members = typing.get_args(hint)
        return sorted(members, key=lambda kind: (kind is str, order.index(kind) if kind in order else len(order)))
    return [hint]


def type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """What the annotations of a function, or of a class's constructor, say about its arguments."""
    made = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    try:
        return typing.get_type_hints(made)
    except Exception:
        # an annotation that names something absent; the parameters' own annotations may still be plain types
        return {
            name: parameter.annotation
            for name, parameter in inspect.signature(function).parameters.items()
            if not isinstance(parameter.annotation, str)
        }


def _none(text: str, _: Any) -> None:
    if text.lower() not in ("none", "null"):
        raise ValueError(text)


def _bool(text: str, _: Any) -> bool:
    try:
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
    except KeyError:
        raise ValueError(text) from None


def _str(text: str, _: Any) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


_READERS: Mapping[Any, Callable[[str, Any], Any]] = {
    type(None): _none,
    bool: _bool,
    int: lambda text, _: parse_count(text),
    float: lambda text, _: float(text),
    str: _str,
    Path: lambda text, _: Path(text),
}


def _other(text: str, kind: Any) -> Any:
    """Sequences, literals, enums and dtypes; what is none of these is read as a literal."""
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        found = [choice for choice in typing.get_args(kind) if str(choice) == text]
        if not found:
            raise ValueError(text)
        return found[0]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        by_name = {member.name.lower(): member for member in kind}
        return by_name[text.lower()] if text.lower() in by_name else kind(text)
    if getattr(kind, "__module__", "") == "torch" and getattr(kind, "__name__", "") == "dtype":
        import torch

        from .inputs import parse_dtype

        return getattr(torch, parse_dtype(text))
    value = literal(text)
    wanted = origin or kind
    if wanted in (list, tuple, dict, set) and not isinstance(value, wanted):
        if wanted in (list, tuple) and isinstance(value, list | tuple):
            return wanted(value)
        raise ValueError(text)
    return value


def _written(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", type(None): "none", str: "text"}
    kinds = list(dict.fromkeys(names.get(kind, _plain_name(kind)) for kind in _alternatives(hint)))
    return "a number" if hint == int | float else " or ".join(kinds)


def _plain_name(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(map(str, typing.get_args(kind)))}"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"one of {', '.join(member.name.lower() for member in kind)}"
    plain = isinstance(kind, type) and typing.get_origin(kind) is None
    return kind.__name__ if plain else str(kind).replace("typing.", "")
