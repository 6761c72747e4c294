"""Every error a user can act on: one sentence that names the thing, the place and the next move."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from numbers import Integral
from typing import Any

BEGINNING = 3
"""Letters from which on a name may be the beginning of another."""


class FlopsightError(Exception):
    """Something the user can act on. The command line prints it without a traceback."""

    exit_code = 2


class InputError(FlopsightError):
    """What was handed in cannot be profiled."""


class FormulaError(FlopsightError):
    """A formula was registered or written wrongly."""


class ProfileFileError(FlopsightError):
    """A file is not a profile that this version can read."""


class OutputError(InputError, OSError):
    """A file cannot be written."""


class ConfigError(FlopsightError):
    """A setting has an unknown name or a wrong value."""


class StateError(FlopsightError):
    """A profiler was asked for something that it does not have yet, or no longer."""


class TorchError(FlopsightError):
    """The torch that is installed cannot be watched."""


class CheckFailed(FlopsightError):
    """A budget, a comparison or a strict count did not hold."""

    exit_code = 1


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest known name, or nothing; the beginning of a name is nearest to the shortest one."""
    known, name = list(known), str(name)
    begun = [one for one in known if len(name) >= BEGINNING and one.lower().startswith(name.lower())]
    near = sorted(begun, key=len) or get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def check_known(name: str, known: Collection[str], sentence: str, these: str) -> None:
    """Refuse a name that is not known: a sentence that says so, the nearest name, then all of `these`."""
    if name not in known:
        raise InputError(f"{sentence}.{did_you_mean(name, known)} {these} {', '.join(known)}.")


def whole_number(name: str, value: Any, least: int, otherwise: str = "", most: int | None = None) -> None:
    """Refuse an argument that is not a whole number, too small or above `most`; `otherwise` says what else it may be."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"{name} must be a whole number, {least} or more{otherwise}, not {value!r}.")
    if most is not None and int(value) > most:
        raise InputError(f"{name} can be {most:,} at most, and a larger number was given; take a smaller one.")


def does_not_divide(axis: str, ways: int, number: int, what: str, *, most: int | None = None) -> InputError:
    """The refusal of an axis of a mesh that does not divide so many things, with the sizes up to `most` that would."""
    fits = ", ".join(str(size) for size in range(2, (most or number) + 1) if number % size == 0)
    return InputError(f"{axis}={ways} does not divide {what}; these do: {fits or f'none, so leave {axis} out'}.")
