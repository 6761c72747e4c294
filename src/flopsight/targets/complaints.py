"""The list of complaints about a target: each names the thing, the place and the next move.

They are the same whether a file's text shows the mistake, before torch is imported, or the live class does afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, did_you_mean
from .inputs import EXAMPLE

if TYPE_CHECKING:
    from .address import Address


def no_file(shown: str, path: Path, suffix: str) -> InputError:
    """A file that is not there, with one nearby of almost that name."""
    nearby = [near.name for near in path.parent.glob(f"*{suffix}")] if path.parent.is_dir() else []
    return InputError(f"There is no file {shown}.{did_you_mean(path.name, nearby)}")


def missing_name(address: Address, names: Iterable[str], offered: list[str]) -> InputError:
    """A name that a file does not have."""
    has = f" It has {', '.join(offered)}." if offered else ""
    return InputError(f"{address.home} has no {address.name!r}.{did_you_mean(address.name, names) or has}")


def unknown_model(library: str, name: str, names: Iterable[str], sought: str | None = None) -> InputError:
    """A model that a library does not have; `sought` is the part of its name to look up."""
    listed = f" See `flopsight targets {library}`."
    return InputError(f"{library} has no model {name!r}.{did_you_mean(sought or name, names) or listed}")


def unknown_key(kind: str, key: str, known: Iterable[str]) -> InputError:
    """A key that a configuration does not have."""
    return InputError(f"The configuration of {kind} has no {key!r}.{did_you_mean(key, known)}")


def unknown_argument(shown: str, name: str, known: Collection[str], *, listed: bool = True) -> InputError:
    """An argument that a class, function or forward does not take, with the nearest; a short list is shown whole."""
    has = f" It has {', '.join(known)}." if 0 < len(known) <= 12 else "" if known else " It takes none."
    return InputError(f"{shown} has no argument {name!r}.{did_you_mean(name, known) or (has if listed else '')}")


def missing_arguments(shown: str, missing: list[str]) -> InputError:
    """A call without an argument that has no default, and how to give it."""
    joined = ", ".join(missing[:-1]) + (" and " if len(missing) > 1 else "") + missing[-1]
    example = ",".join(f"{name}=..." for name in missing)
    return InputError(
        f"{shown} needs {joined}. Give {'it' if len(missing) == 1 else 'them'} after a second colon, {shown}:{example}, "
        f"or name a function without arguments that returns the model."
    )


def wrong_value(shown: str, name: str, wanted: str, text: str) -> InputError:
    """A value that does not have the type of its argument."""
    return InputError(f"{name} of {shown} is {wanted}; {text!r} is not.")


def refused_call(takes: str, problem: TypeError) -> InputError:
    """Inputs that a forward cannot be called with."""
    return InputError(f"{takes} cannot be called like this: {problem}. Say its inputs with -i, like {EXAMPLE}.")


def without_inputs(text: str) -> InputError:
    """A target for which no inputs were given."""
    return InputError(f"{text} comes without inputs. Say them with -i: {EXAMPLE}.")


def unknown_optimizer(name: str, known: Iterable[str]) -> InputError:
    """An optimizer that torch.optim does not have."""
    return InputError(f"torch.optim has no {name!r}.{did_you_mean(name.lower(), known)}")
