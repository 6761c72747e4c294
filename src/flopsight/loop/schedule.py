"""Which step of a loop has which role in a window of steps."""

from __future__ import annotations

from enum import Enum
from operator import index
from typing import Any

from ..config import parse_steps
from ..errors import ConfigError, InputError

MOST_MOVES = 3
"""How many steps unlike the others are passed over. After that, the loop is taken to consist of such steps."""


class Role(Enum):
    """What happens to a step; every role but NONE also marks where its phases begin and end."""

    NONE = "it runs without us"
    LEAD = "it is the step before the window, and shows what a usual step calls"
    COUNT = "its ops are counted, which slows it, so its times are not used"
    TIME = "it is timed"
    TRACE = "its kernels are traced if the device has a tracer, else it is timed"


class Schedule:
    """The roles of a window's steps: the first is counted, the others are timed, the last of several is traced.

    A window of one step is followed by one more, which is only timed. The step before the window is the lead.
    """

    def __init__(self, steps: Any) -> None:
        self.steps = checked_steps(steps)
        """The window as it is now; `pass_over` moves it."""
        self.asked = self.steps[0]
        """The first step that was asked for."""
        self.timed = self.steps[1:] or (self.steps[0] + 1,)
        self.moves: list[str] = []
        """Why each step that was passed over was unlike the others."""

    @property
    def counted(self) -> int:
        """The step that is counted."""
        return self.steps[0]

    def role(self, step: int) -> Role:
        """What happens to a step of the loop, as the window is now."""
        if step == self.counted:
            return Role.COUNT
        if step in self.timed:
            return Role.TRACE if len(self.timed) > 1 and step == self.timed[-1] else Role.TIME
        return Role.LEAD if step == self.counted - 1 else Role.NONE

    def is_over(self, step: int) -> bool:
        """True if a step comes after the last one of the window."""
        return step > self.timed[-1]

    def pass_over(self, step: int, why: str) -> bool:
        """Let the next step take the place of one that is unlike the others; False after too many of them."""
        if len(self.moves) >= MOST_MOVES:
            return False
        self.moves.append(why)
        if step == self.counted:
            self.steps = tuple(number + 1 for number in self.steps)
            self.timed = tuple(number + 1 for number in self.timed)
        else:
            self.timed = (*(number for number in self.timed if number != step), self.timed[-1] + 1)
        return True


def checked_steps(steps: Any) -> tuple[int, ...]:
    """The numbers of a window's steps; raises for anything but consecutive whole numbers from 0 on."""
    try:
        found = tuple(map(index, steps))
    except TypeError:
        found = ()
    if not found or found[0] < 0 or found != tuple(range(found[0], found[0] + len(found))):
        raise InputError(
            f"steps must be whole numbers, consecutive and not negative, like range(2, 7) or [5], "
            f"not {found or steps!r}.{_meant_range(steps)}"
        )
    return found


def _meant_range(steps: Any) -> str:
    """A hint for steps written as in a settings file, as a first and a last one."""
    try:
        first, last = parse_steps(steps)
    except ConfigError:
        return ""
    return f" Did you mean steps=range({first}, {last + 1})?"
