"""What the limits of a module depend on beside its own work: the device, its rates, and how long the step took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from .ceilings import Ceilings
from .timings import NOT_TIMED, Timing


@dataclass(frozen=True)
class Conditions:
    """The part of a profile that its nodes know, so that `node.limit()` needs no profile. Never changed, only replaced."""

    device_name: str = ""
    dtype: str = ""
    """Of ops whose own dtype was not recorded."""
    peak_flops: Mapping[str, float] = field(default_factory=dict)
    ceilings: Ceilings | None = None
    timing: Timing = NOT_TIMED
    trained: bool = False

    @cached_property
    def untimed(self) -> Conditions:
        """The same without the times of the step, as the modules below the root know them."""
        return replace(self, timing=NOT_TIMED)
