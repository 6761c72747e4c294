"""What every doubt is: a value whose `str()` is one or two sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import dataclass_transform


@dataclass_transform(frozen_default=True)
class Caveat:
    """A doubt; `str()` is one or two sentences for the user. Its kinds are frozen dataclasses."""

    says = ""
    """The sentences, with fields in braces, paths of modules as a list; a kind that has to choose its words has a `__str__` of its own."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def __str__(self) -> str:
        return self.says.format(**{name: _said(value) for name, value in vars(self).items()})


def _said(value: object) -> object:
    return ", ".join(path or "the model" for path in value) if isinstance(value, tuple) else value


class Note(Caveat):
    """Anything else worth a sentence."""

    text: str
    says = "{text}"
