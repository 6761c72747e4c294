"""One step of a loop, while it runs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from .backward_path import CallGraph
from .counted_work import NOTHING, CallCount, Work
from .step_clock import Moment


class Step:
    """What is noted of a step; times of its parts are the host's."""

    __slots__ = (
        "backward", "backwards", "began", "calls", "counting_spans", "ended", "evaluated", "first_call", "forward", "graphs",
        "history", "host_began", "keys", "last_activity", "masks", "pending", "samples", "skipped", "slowed", "tokens",
        "validation_spans", "validations", "work", "works",
    )  # fmt: skip

    def __init__(self, began: Moment, host_began: float) -> None:
        self.began = began
        self.ended: Moment = None
        self.host_began = self.last_activity = host_began
        self.first_call: float | None = None
        self.calls = 0
        self.evaluated = 0
        """Calls in eval mode."""
        self.pending = 0
        """Calls with gradients that no backward has followed yet."""
        self.forward = self.backward = 0.0
        self.backwards = 0
        self.work: Work | None = NOTHING
        """None once the work of a call is not known."""
        self.keys: list[Hashable] = []
        """What its calls were called with."""
        self.works: list[CallCount | None] = []
        """The counts of its calls."""
        self.graphs: list[CallGraph | None] = []
        """Where its calls stand in autograd's graph, while that has to be read."""
        self.history: tuple[int, ...] = ()
        """The kinds of its calls and backwards, in order."""
        self.tokens: int | None = 0
        self.samples: int | None = 0
        self.masks: list[Any] = []
        """Numbers of tokens that the device is still to tell."""
        self.skipped = False
        self.slowed = False
        """True if the step was counted while it ran, which slows it."""
        self.validations = 0
        self.validation_spans: list[tuple[Moment, Moment]] = []
        self.counting_spans: list[tuple[Moment, Moment]] = []
        """On a device: pauses in which we counted; a host's clock stands still meanwhile."""

    def call_began(self, now: float) -> None:
        """Note a call of the model that belongs to the step."""
        self.calls += 1
        if self.first_call is None:
            self.first_call = now

    def add(self, work: Work | None) -> None:
        """Add the work of a call."""
        self.work = None if self.work is None or work is None else self.work + work

    def size(self, tokens: int | None, samples: int | None) -> None:
        """Add the size of a call's batch."""
        self.tokens = None if self.tokens is None or tokens is None else self.tokens + tokens
        self.samples = None if self.samples is None or samples is None else self.samples + samples

    def carry(self, before: Step) -> None:
        """Let backwards of this step go through calls of the one before."""
        self.works, self.graphs, self.history = before.works[:], before.graphs[:], before.history

    @property
    def key(self) -> Hashable:
        """What equal steps have in common."""
        return ("step", tuple(self.keys), self.backwards)

    def extend(self, later: Step) -> None:
        """Let what came after be a part of this step."""
        self.ended = later.ended
        self.calls += later.calls
        self.keys += later.keys
        self.backwards += later.backwards
        self.forward += later.forward
        self.backward += later.backward
        self.add(later.work)
        if later.calls:
            self.size(later.tokens, later.samples)
        self.masks += later.masks
        self.skipped |= later.skipped
        self.slowed |= later.slowed
        self.validations += later.validations
        self.validation_spans += later.validation_spans
        self.counting_spans += later.counting_spans
