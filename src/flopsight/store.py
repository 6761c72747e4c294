"""Profile <-> JSON with a schema number; needs no torch."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from . import caveats
from .caveats import Caveat
from .errors import ProfileFileError
from .tree import Profile

SCHEMA = 1
KIND = "flopsight profile"


def save(profile: Profile, path: Path) -> Path:
    """Write a profile; the directory is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dumps(profile), encoding="utf-8")
    return path


def load(path: str | Path) -> Profile:
    """Read a profile that `save` wrote."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ProfileFileError(f"There is no file {path}.") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise ProfileFileError(f"{path} cannot be read: {problem}.") from None
    return loads(text, str(path))


def dumps(profile: Profile) -> str:
    """A profile as JSON text."""
    return json.dumps({"kind": KIND, "schema": SCHEMA, "profile": _encode(profile)}, separators=(",", ":"))


def loads(text: str, source: str = "The text") -> Profile:
    """A profile from JSON text."""
    try:
        page = json.loads(text)
    except ValueError:
        raise ProfileFileError(f"{source} is not a flopsight profile: it is not JSON.") from None
    if not isinstance(page, dict) or page.get("kind") != KIND:
        raise ProfileFileError(
            f"{source} is JSON, but not a flopsight profile. Make one: flopsight profile ... -o p.json"
        )
    if not isinstance(page.get("schema"), int) or page["schema"] > SCHEMA:
        raise ProfileFileError(
            f"{source} has schema {page.get('schema')}, this flopsight reads up to {SCHEMA}. Upgrade flopsight to read it."
        )
    try:
        decoded = _decode(Profile, page["profile"])
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise ProfileFileError(
            f"{source} is a damaged flopsight profile ({type(problem).__name__}: {problem})."
        ) from None
    assert isinstance(decoded, Profile)
    return decoded


def _encode(value: Any) -> Any:
    """Dataclasses become objects without their default fields, tuples lists."""
    if is_dataclass(value) and not isinstance(value, type):
        page: dict[str, Any] = {"caveat": type(value).__name__} if isinstance(value, Caveat) else {}
        for f in fields(value):
            item = getattr(value, f.name)
            default = f.default_factory() if f.default_factory is not MISSING else f.default
            if item != default:
                page[f.name] = _encode(item)
        return page
    if isinstance(value, Mapping):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, localns={"Caveat": Caveat})


def _decode(hint: Any, value: Any) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (hint,) = [arg for arg in args if arg is not types.NoneType]
        return _decode(hint, value)
    if origin is tuple:
        return tuple(_decode(args[0], item) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _decode(args[1], item) for key, item in value.items()}
    if hint is Caveat:
        return _decode_caveat(dict(value))
    if is_dataclass(hint):
        hints = _hints(hint)  # type: ignore[arg-type]
        return hint(**{key: _decode(hints[key], item) for key, item in value.items()})  # type: ignore[operator]
    return float(value) if hint is float else value


def _decode_caveat(page: dict[str, Any]) -> Caveat:
    name = page.pop("caveat")
    kind = caveats.all_kinds().get(name)
    if kind is None:
        return caveats.Note(f"{name}: {page}")
    hints = _hints(kind)  # type: ignore[arg-type]
    return kind(**{key: _decode(hints[key], item) for key, item in page.items()})
