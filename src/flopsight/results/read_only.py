"""Tables inside frozen values: copies that refuse to be changed, so that a value stays what it was."""

from __future__ import annotations

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


def fix_tables(value: Any, *names: str) -> None:
    """Replace tables of a frozen dataclass by read-only copies; its `__post_init__` calls this."""
    for name in names:
        object.__setattr__(value, name, ReadOnly(getattr(value, name)))
