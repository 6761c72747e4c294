"""A case: a model with its inputs, and what it multiplies by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn


@dataclass(frozen=True)
class Case:
    """The products of a model, as arithmetic says.

    Biases, norms and activations are below two percent of the products in every case, so it does not matter whether a counter
    adds them to its multiply-accumulates.
    """

    name: str
    group: str
    build: Callable[[], nn.Module]
    args: Callable[[], tuple]
    macs: int | tuple[int, ...]
    """Several numbers if conventions differ and each of them is right."""
    kwargs: Callable[[], Mapping[str, Any]] = field(default=dict)
    inference: bool = True
    """In eval mode without gradients; otherwise in training mode with gradients."""

    @property
    def answers(self) -> tuple[int, ...]:
        """Every number that is right."""
        return self.macs if isinstance(self.macs, tuple) else (self.macs,)


class Calls(nn.Module):
    """A function of its inputs, as a model; it looks up what it calls in torch when it is called, as code does."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, first, second=None, third=None):
        return self.function(*(each for each in (first, second, third) if each is not None))


def error(answer: float, case: Case) -> float:
    """How far an answer is from the nearest right one, as a share of it."""
    return min(abs(answer - right) / right for right in case.answers)


TOLERANCE = 0.02
"""What conventions on biases, norms and activations may make of a case."""


def is_right(answer: float, case: Case) -> bool:
    """Whether an answer is right by any of the usual conventions."""
    return error(answer, case) <= TOLERANCE
