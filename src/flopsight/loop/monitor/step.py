"""One step of a loop, while it runs."""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy
from typing import Any

from torch import nn

from .backward_path import CallGraph
from .counted_work import UNKNOWN, CallCount, Work
from .padding_masks import MaskPlace
from .process_memory import MemoryUse
from .step_clock import Moment

RAISED = -2
"""A call or a backward that raised, in the history of a step."""

Spans = tuple[tuple[Moment, Moment], ...]

Given = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
"""A model and what it is called with."""


def size_of(tokens: float, samples: float) -> int:
    """Tokens, or else samples; 0 if neither is known."""
    return int(tokens) if tokens > 0 else int(samples) if samples > 0 else 0  # nan is not above 0


class CallKind:
    """Calls of a model that do equal work: equal shapes, modes and trained parameters."""

    __slots__ = (
        "calls",
        "compiled",
        "count",
        "family",
        "key",
        "made",
        "mask",
        "passed_on",
        "path",
        "samples",
        "sizes",
        "state",
        "tokens",
    )

    def __init__(
        self,
        key: Hashable,
        state: Hashable,
        family: int,
        path: int,
        passed_on: bool,
        tokens: float,
        samples: float,
        mask: MaskPlace | None,
    ) -> None:
        self.key, self.state = key, state
        """What it is called with, and what else decides its work."""
        self.family = family
        """A number for everything but what it is called with."""
        self.path = path
        """The same, but calls with other choices, such as a flag, have another one: they may send a backward another way."""
        self.passed_on = passed_on
        """Whether a backward goes on into what made its inputs."""
        self.tokens, self.samples = tokens, samples
        """Of a call; nan if not known."""
        self.mask = mask
        """Where the argument is that says which of the tokens are padding."""
        self.count: CallCount | None = None
        """None while the work of its calls is not counted."""
        self.made: Hashable = None
        """How many nodes of autograd's graph its calls make, and outputs of which shapes; calls that make others do other work.

        0 if not known."""
        self.calls = 0
        """Since one made what none before it had made."""
        self.sizes: dict[Hashable, Hashable] = {}
        """Of the products in its first call that made the same."""
        self.compiled = 0
        """How often code had been compiled when that number was found: compiled code makes another one."""


class Sums:
    """Work, tokens and samples of a step, or of several: each is nan if that of a part is not known."""

    flops = 0.0
    at_peak = 0.0
    all_at_peak = 0.0
    estimated = 0
    """How many parts have the work of others; of a step, whether any has."""
    tokens = 0.0
    samples = 0.0

    def set(self, work: Work) -> None:
        """Let the work so far be this."""
        self.flops, self.at_peak, self.all_at_peak = work.flops, work.at_peak, work.all_at_peak
        self.estimated = work.estimated

    def add(self, work: Work) -> None:
        """Add the work of a call."""
        self.flops += work.flops
        self.at_peak += work.at_peak
        self.all_at_peak += work.all_at_peak
        if work.estimated:
            self.estimated = True


class StepTime:
    """When a step began and ended, how long its parts took on the host, and what in it is not its own time."""

    ended: Moment = None
    first_call: float | None = None
    forward = 0.0
    backward = 0.0
    validated: Spans = ()
    saved: Spans = ()
    """Checkpoints that the loop wrote."""
    counted: Spans = ()
    """Pauses in which we counted; a host's clock stands still meanwhile."""

    def __init__(self, began: Moment, host_began: float) -> None:
        self.began = began
        self.host_began = self.last_activity = host_began


class StepCalls:
    """The calls of a step, and the backwards between them, in their order."""

    number = 0
    evaluated = 0
    """Calls in eval mode, with gradients."""
    pending = 0
    """Calls with gradients that no backward has followed yet."""
    passive = False
    """True if a call without gradients, in train mode, began the step: if so, one that begins the next belongs to it."""
    backwards = 0
    kinds: tuple[CallKind, ...] = ()
    """The calls, after those of the step before that its backwards may go through."""
    graphs: tuple[CallGraph | None, ...] = ()
    """Where these calls stand in autograd's graph."""
    made: tuple[Hashable, ...] = ()
    """How many nodes of it and which outputs each call of this step made, with the sizes of its products if these vary."""
    history: tuple[tuple[int, Hashable], ...] = ()
    """The paths of these calls and what made their inputs, and the backwards between them with where each enters a call."""
    carried = 0
    """How much of it is of the step before."""

    def carry(self, before: StepCalls) -> None:
        """Let backwards of this step go through calls of the one before."""
        self.kinds, self.graphs, self.history = before.kinds, before.graphs, before.history
        self.carried = len(self.history)

    @property
    def own(self) -> tuple[CallKind, ...]:
        """The calls of this step."""
        return self.kinds[len(self.kinds) - self.number :]

    @property
    def key(self) -> Hashable:
        """What equal steps have in common."""
        return ("step", tuple([kind.key for kind in self.own]), self.made, self.history[self.carried :])

    def extend(self, later: StepCalls) -> None:
        """Let later calls be a part of this step."""
        self.kinds = self.own + later.own
        self.number += later.number
        self.made += later.made
        self.history += later.history[later.carried :]
        self.backwards += later.backwards
        self.passive |= later.passive


class Step:
    """What is noted of a step.

    Every step of a training passes here, so that a new one sets only what is not the same for all.
    """

    masks: tuple[Any, ...] = ()
    """Numbers of tokens that the device is still to tell."""
    memory: MemoryUse | None = None
    """In use at its end, if an interval ends with it."""
    validations = 0
    updates = 0
    """Of any optimizer."""
    skipped = False
    failed = False
    """True if a call or a backward raised, and the loop went on: how far it came is not known."""
    slowed = False
    """True if the step was counted while it ran, which slows it."""

    def __init__(self, began: Moment, host_began: float) -> None:
        self.time, self.calls, self.sums = StepTime(began, host_began), StepCalls(), Sums()

    def fail(self) -> None:
        """A call or a backward of it has raised: its work is not known, and no other step is like it."""
        self.failed = True
        self.sums.set(UNKNOWN)
        self.calls.history += ((RAISED, None),)

    def copy(self) -> Step:
        """The step as it is now."""
        same = copy(self)
        same.time, same.calls, same.sums = copy(self.time), copy(self.calls), copy(self.sums)
        return same

    def extend(self, later: Step) -> None:
        """Let what came after be a part of this step."""
        self.calls.extend(later.calls)
        for mine, others in ((self.time, later.time), (self.sums, later.sums), (self, later)):
            for name in ADDED[type(mine)]:
                setattr(mine, name, getattr(mine, name) + getattr(others, name))
        self.time.ended, self.memory = later.time.ended, later.memory
        self.skipped |= later.skipped
        self.failed |= later.failed
        self.slowed |= later.slowed


ADDED: dict[type, tuple[str, ...]] = {
    StepTime: ("forward", "backward", "validated", "saved", "counted"),
    Sums: ("flops", "at_peak", "all_at_peak", "estimated", "tokens", "samples"),
    Step: ("masks", "validations"),
}
"""What adds up if two steps become one."""
