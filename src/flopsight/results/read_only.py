"""Tables inside frozen values: copies that refuse to be changed, so that a value stays what it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn


class ReadOnly(dict[Any, Any]):
    """A dictionary that cannot be changed; it compares, pickles and prints like any other."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError(
            "A profile and its tables do not change. Make another profile with dataclasses.replace(), or copy the table with dict()."
        )

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[ReadOnly], tuple[dict[Any, Any]]]:
        return type(self), (dict(self),)

    def copy(self) -> dict[Any, Any]:
        """A copy that can be changed."""
        return dict(self)


class FixedTables:
    """A frozen dataclass whose tables are read-only copies of those that it was made of."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Mapping):
                object.__setattr__(self, name, ReadOnly(value))
