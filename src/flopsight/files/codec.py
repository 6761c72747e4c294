"""Dataclasses to plain JSON values and back, by their type hints; every value is checked while it is read."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

LEAST, MOST = 1e-30, 10**30
"""No time is shorter and no count larger: a float holds all sums and ratios that a view makes of them."""
Convert = Callable[[Any], Any]
Kind = TypeVar("Kind")


class DamagedError(Exception):
    """A value is not what its place calls for; the text begins with the place."""


class Codec:
    """Writes and reads dataclasses. A field that has its default is not written; an unknown field is not read."""

    def __init__(self, checks: Mapping[tuple[type, str], Convert], names: Mapping[str, Any]) -> None:
        self._checks = checks
        """Readers of single fields, if the type alone allows too much."""
        self._names = names
        """What type hints may name that their own module imports for type checkers only."""
        self._encoders: dict[Any, Convert | None] = {}
        self._decoders: dict[Any, Convert] = {}

    def add(self, kind: type, encode: Convert, decode: Convert) -> None:
        """Let a class be written and read in a way of its own."""
        self._encoders[kind], self._decoders[kind] = encode, decode

    def encode(self, value: Any) -> Any:
        """A dataclass as a dictionary that `json` can write."""
        convert = self._encoder(type(value))
        return value if convert is None else convert(value)

    def decode(self, kind: type[Kind], value: Any) -> Kind:
        """What `encode` made of an instance of `kind`; raises `DamagedError` if it cannot be one."""
        made: Kind = self._decoder(kind)(value)
        return made

    def fields_encoder(self, kind: type, leave_out: Collection[str] = ()) -> Callable[[Any], dict[str, Any]]:
        """A function that writes the fields of one class which do not have their default."""
        hints = get_type_hints(kind, localns=dict(self._names))
        known = [f for f in fields(kind) if f.name not in leave_out]
        names = [f.name for f in known]
        parts = [(f.name, _default(f), self._encoder(hints[f.name])) for f in known]
        read: Convert = attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, one) for one in names]

        def encode(value: Any) -> dict[str, Any]:
            page = {}
            for (name, default, convert), item in zip(parts, read(value), strict=True):
                if item is not default and item != default:
                    page[name] = item if convert is None else convert(item)
            return page

        return encode

    def fields_decoder(self, kind: type, leave_out: Collection[str] = ()) -> Callable[[Any], dict[str, Any]]:
        """A function that reads the fields of one class, as keywords for its constructor."""
        hints = get_type_hints(kind, localns=dict(self._names))
        known = [f for f in fields(kind) if f.name not in leave_out]
        readers = {f.name: self._checks.get((kind, f.name)) or self._decoder(hints[f.name]) for f in known}
        needed = [f.name for f in known if _default(f) is MISSING]

        def decode(page: Any) -> dict[str, Any]:
            values = {}
            for name, item in table(page).items():
                read = readers.get(name)
                if read is None:
                    continue  # a newer version wrote more than this one knows
                try:
                    values[name] = read(item)
                except DamagedError as problem:
                    raise DamagedError(f".{name}{problem}") from None
            for name in needed:
                if name not in values:
                    raise DamagedError(f".{name} is missing")
            return values

        return decode

    def _encoder(self, hint: Any) -> Convert | None:
        """How a value is written; None if `json` takes it as it is."""
        if hint not in self._encoders:
            if is_dataclass(hint):  # a class may hold itself: what its fields need is looked up later
                self._encoders[hint] = _Late(lambda: self.fields_encoder(hint))  # type: ignore[arg-type]
            else:
                self._encoders[hint] = self._make_encoder(hint)
        return self._encoders[hint]

    def _make_encoder(self, hint: Any) -> Convert | None:
        origin, args = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            inner = self._encoder(_not_none(args))
            return None if inner is None else lambda value: None if value is None else inner(value)
        if origin is tuple:
            of_list = self._encoder(args[0])
            return None if of_list is None else lambda values: [of_list(value) for value in values]
        if origin is not None and issubclass(origin, Mapping):
            of_table = self._encoder(args[1])
            return dict if of_table is None else lambda table: {key: of_table(value) for key, value in table.items()}
        return None

    def _decoder(self, hint: Any) -> Convert:
        if hint not in self._decoders:
            self._decoders[hint] = self._make_decoder(hint)
        return self._decoders[hint]

    def _make_decoder(self, hint: Any) -> Convert:
        origin, args = get_origin(hint), get_args(hint)
        if hint in _PLAIN:
            return _PLAIN[hint]
        if is_dataclass(hint):
            decode = _Late(lambda: self.fields_decoder(hint))  # type: ignore[arg-type]
            return lambda page: hint(**decode(page))  # type: ignore[operator]
        if origin in (Union, types.UnionType):
            inner = self._decoder(_not_none(args))
            return lambda value: None if value is None else inner(value)
        if origin is tuple:
            return whole_numbers if args[0] is int else partial(listed, self._decoder(args[0]))
        return partial(_table, self._decoder(args[1]))


class _Late:
    """A function that is made when it is first called."""

    def __init__(self, make: Callable[[], Convert]) -> None:
        self._make = make
        self._function: Convert | None = None

    def __call__(self, value: Any) -> Any:
        if self._function is None:
            self._function = self._make()
        return self._function(value)


def whole_number(value: Any, least: int = 0, most: int = MOST) -> int:
    """A count: a whole number from `least` to `most`."""
    if type(value) is not int or not least <= value <= most:
        raise DamagedError(f" is {shown(value)}, not a whole number from {least} to {'1e30' if most == MOST else most}")
    return value


def number(value: Any) -> float:
    """A time, a share or a rate: 0, or from 1e-30 to 1e30, so that no ratio of two is infinite."""
    if type(value) is int:
        value = float(whole_number(value))
    if type(value) is not float or not (value == 0 or LEAST <= value <= MOST):
        raise DamagedError(f" is {shown(value)}, not 0 or a number from 1e-30 to 1e30")
    return value


def whole_numbers(values: Any) -> tuple[int, ...]:
    """A shape: whole numbers from 0 on."""
    if type(values) is not list:
        raise DamagedError(f" is {shown(values)}, not a list")
    for value in values:
        if type(value) is not int or not 0 <= value <= MOST:
            whole_number(value)
    return tuple(values)


def listed(read: Convert, values: Any, least: int = 0) -> tuple[Any, ...]:
    """A list whose items are read one by one."""
    if type(values) is not list or len(values) < least:
        raise DamagedError(f" is {shown(values)}, not a list{' with something in it' if least else ''}")
    try:
        return tuple([read(value) for value in values])
    except DamagedError as problem:
        raise DamagedError(f"[]{problem}") from None


def one_of(choices: Sequence[str]) -> Convert:
    """A reader for a text that is one of a few."""

    def read(value: Any) -> str:
        if value not in choices:
            raise DamagedError(f" is {shown(value)}, not one of {', '.join(choices)}")
        return str(value)

    return read


def shown(value: Any) -> str:
    """A value as a message shows it, short."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > MOST:
        return "too large"
    said = ascii(value)
    return said if len(said) <= 40 else f"{said[:37]}..."


def exactly(kind: type[Kind], name: str) -> Callable[[Any], Kind]:
    """A reader for a value of just this class; `name` is what a message calls such a value."""

    def read(value: Any) -> Kind:
        if type(value) is not kind:
            raise DamagedError(f" is {shown(value)}, not {name}")
        return value

    return read


text = exactly(str, "a text")
table: Callable[[Any], dict[str, Any]] = exactly(dict, "a table")


def member(page: Any, name: str, read: Convert) -> Any:
    """A value of a table that must be there."""
    found = table(page)
    if name not in found:
        raise DamagedError(f".{name} is missing")
    try:
        return read(found[name])
    except DamagedError as problem:
        raise DamagedError(f".{name}{problem}") from None


def _table(read: Convert, values: Any) -> dict[str, Any]:
    try:
        return {key: read(value) for key, value in table(values).items()}
    except DamagedError as problem:
        raise DamagedError(f"{{}}{problem}") from None


_PLAIN: Mapping[Any, Convert] = {int: whole_number, float: number, str: text, bool: exactly(bool, "true or false")}


def _not_none(args: Sequence[Any]) -> Any:
    (hint,) = [arg for arg in args if arg is not types.NoneType]
    return hint


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
