"""A draft model of speculative decoding, as a generation keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .generation import Generation


@dataclass(frozen=True)
class Draft:
    """A smaller model that proposes tokens, which the model then checks in one forward."""

    made: Generation
    acceptance: float
    """The chance that a proposed token is accepted."""
    length: int
    """Tokens that are proposed in a round."""
