"""What every doubt is: a value whose `str()` is one or two sentences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Caveat:
    """A doubt; `str()` is one or two sentences for the user."""


@dataclass(frozen=True)
class Note(Caveat):
    """Anything else worth a sentence."""

    text: str

    def __str__(self) -> str:
        return self.text
