"""One architecture of the sweep: a way to build it with inputs, and the reasons for which its twin may differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from reasons import Reason
from torch import nn


class Example(NamedTuple):
    """A model and what it is called with."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Architecture:
    """One row of the sweep."""

    name: str
    library: str
    build: Callable[[], Example]
    reasons: tuple[Reason, ...] = ()
    no_inference_twin: str = ""
    """Why a count of inference on meta falls back to real tensors, where it does."""
    pooled: str = ""
    """A module whose submodules share its work by data: their rows are compared as one."""
