"""What could be changed: one finding, with the numbers that it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from ... import units
from ...results.in_notebooks import InNotebooks
from ...results.node import without_numbers

MOST_PLACES = 3


@dataclass(frozen=True)
class Finding(InNotebooks):
    """What, where, by which evidence, at most this much to win, and the next move."""

    name: str
    """A word to filter by: `fusion`, `precision`, ..."""
    what: str
    """The finding in one sentence."""
    where: tuple[str, ...]
    """Paths of the modules; the empty string is the model itself."""
    evidence: str
    """The numbers that it rests on."""
    next_move: str
    """What to change: a flag, a call, a size."""
    seconds: float = 0.0
    """At most this much of a step can be won."""
    share: float = 0.0
    """The same as a share of the step."""
    bytes: int = 0
    """At most this much memory can be won; of a finding that blocks, how much is missing."""
    blocks: bool = False
    """Whether the step cannot run as it is: such findings come first."""

    @property
    def win(self) -> str:
        """`at most 3.2 ms (12.5%)`, or the memory."""
        if self.blocks:
            return f"{units.size(self.bytes)} of memory"
        won = [f"{units.seconds(self.seconds)} ({units.percent(self.share)}) of a step"] if self.seconds else []
        if self.bytes:
            won.append(f"{units.size(self.bytes)} of memory")
        return f"at most {' and '.join(won)}"

    @property
    def verdict(self) -> str:
        """The win with its verb: `at most ... to win`, or what is missing."""
        return f"{self.win} {'missing' if self.blocks else 'to win'}"

    @property
    def place(self) -> str:
        """The first paths, and how many more there are; modules that differ by a number in their stack are one."""
        alike: dict[str, list[str]] = {}
        for path in self.where:
            alike.setdefault(without_numbers(path), []).append(path)
        named = [f"{key} x {len(paths)}" if len(paths) > 1 else paths[0] or "the model" for key, paths in alike.items()]
        more = sum(map(len, list(alike.values())[MOST_PLACES:]))
        return ", ".join(named[:MOST_PLACES]) + (f" and {more} more" if more else "")

    def __str__(self) -> str:
        """One sentence with its numbers."""
        where = "" if self.where == ("",) else f" ({self.place})"
        return f"{self.what}{where}: {self.evidence}; {self.verdict}: {self.next_move}."


class Findings(tuple[Finding, ...], InNotebooks):
    """Findings in their order, which a notebook shows as a table."""

    __slots__ = ()
