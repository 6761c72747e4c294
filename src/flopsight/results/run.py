"""A monitored training run: sums over intervals of steps, and the steps that were far slower than the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import InputError
from .costs import known_sum
from .environment import Environment
from .in_notebooks import InNotebooks
from .profile import Profile
from .world import World

PREFIX = "flopsight/"
FIGURES = (
    "mfu", "hfu", "model_flops", "tokens_per_second", "step_seconds", "peak_bytes", "joules", "samples_per_second",
    "data_wait_seconds", "allocated_bytes", "joules_per_token", "joules_per_sample", "idle_joules",
)  # fmt: skip
"""What an interval is handed over as, in this order, each with the prefix; one that is not known is left out."""
ADDED = (
    "steps", "timed", "seconds", "waited", "called", "metered", "skipped", "estimated", "validations", "validation_seconds",
    "saves", "saving_seconds",
)  # fmt: skip
OF_TIMED_STEPS = ("at_peak", "all_at_peak", "tokens", "samples")
"""Fields of neighbouring intervals that add up, and those in which an interval without timed steps has no part."""


@dataclass(frozen=True)
class Interval:
    """Consecutive steps of a run, as sums: two neighbours join to one, and nothing is counted twice."""

    first: int
    """The number of its first step, from 0 on."""
    steps: int = 1
    """How many steps."""
    timed: int = 0
    """Steps whose time is known and not slowed by counting; sums of times, tokens and work over time are of these."""
    seconds: float = 0.0
    """Time of the timed steps."""
    total_model_flops: float | None = None
    """Model FLOPs of all steps; None if those of a step are not known."""
    at_peak: float | None = None
    """Seconds that the model FLOPs of the timed steps take at the device's peak; None without a peak."""
    all_at_peak: float | None = None
    """The same with everything that is computed again."""
    tokens: int | None = None
    """Tokens of the timed steps, without padding."""
    samples: int | None = None
    """Samples of the timed steps."""
    waited: float = 0.0
    """Seconds from the end of a step to the next call of the model, of the timed steps."""
    called: float = 0.0
    """Seconds in calls of the model on the host, of the timed steps: a rank spends them alone, without the others."""
    peak_bytes: int | None = None
    """Most memory that was allocated until the end of the interval."""
    allocated_bytes: int | None = None
    """Memory that was allocated at its end."""
    energy: float | None = None
    """Joules of the steps in `metered`."""
    metered: int = 0
    """Steps that `energy` is of: the counter moves slowly, so they may begin before this interval."""
    idle_watts: float | None = None
    """Power of the device before the first step, if it had nothing to do then."""
    skipped: int = 0
    """Steps whose update a gradient scaler left out."""
    estimated: int = 0
    """Steps whose FLOPs are those of others: interpolated after many shapes, or of a like step if values decide the work."""
    validations: int = 0
    """Calls of the model between steps, without gradients."""
    validation_seconds: float = 0.0
    """Time of those, which is in no step."""
    saves: int = 0
    """Checkpoints that the loop wrote."""
    saving_seconds: float = 0.0
    """Time of those, which is in no step."""
    ended: float = 0.0
    """When it ended, in seconds since 1970."""

    @property
    def last(self) -> int:
        """The number of its last step."""
        return self.first + self.steps - 1

    @property
    def step_seconds(self) -> float | None:
        """Mean time of a step."""
        return self.seconds / self.timed if self.timed else None

    @property
    def model_flops(self) -> float | None:
        """Model FLOPs of a step: forward and backward, no recompute, no optimizer; the mean."""
        return None if self.total_model_flops is None else self.total_model_flops / self.steps

    @property
    def mfu(self) -> float | None:
        """Model FLOPs over the time and the peak; None without a peak."""
        return self.at_peak / self.seconds if self.at_peak and self.seconds else None

    @property
    def hfu(self) -> float | None:
        """The same with everything that is computed again."""
        return self.all_at_peak / self.seconds if self.all_at_peak and self.seconds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of this process a second, padding left out if a mask says what it is."""
        return self.tokens / self.seconds if self.tokens and self.seconds else None

    @property
    def samples_per_second(self) -> float | None:
        """Samples of this process a second."""
        return self.samples / self.seconds if self.samples and self.seconds else None

    @property
    def data_wait_seconds(self) -> float | None:
        """Mean time from the end of a step to the next call of the model."""
        return self.waited / self.timed if self.timed else None

    @property
    def own_seconds(self) -> float | None:
        """Mean time of a step before ranks wait for each other: data and forward."""
        return (self.waited + self.called) / self.timed if self.timed else None

    @property
    def joules(self) -> float | None:
        """Energy of a step, the mean; None while the counter has not moved far enough."""
        return self.energy / self.metered if self.energy is not None and self.metered else None

    @property
    def joules_per_token(self) -> float | None:
        """Energy of a token, padding left out, by the mean step."""
        return self.joules * self.timed / self.tokens if self.joules is not None and self.tokens else None

    @property
    def joules_per_sample(self) -> float | None:
        """Energy of a sample, by the mean step."""
        return self.joules * self.timed / self.samples if self.joules is not None and self.samples else None

    @property
    def idle_joules(self) -> float | None:
        """What the device would have used in the time of a step with nothing to do: a part of `joules`."""
        return None if self.idle_watts is None or self.step_seconds is None else self.idle_watts * self.step_seconds

    def figures(self) -> dict[str, float]:
        """The figures by name, like `flopsight/mfu`; those that are not known are left out."""
        found = {PREFIX + name: getattr(self, name) for name in FIGURES}
        found = {name: value for name, value in found.items() if value is not None}
        return found | {PREFIX + "step": self.last, PREFIX + "steps": self.steps}

    def joined(self, other: Interval) -> Interval:
        """This interval and the one after it as one."""
        added: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in ADDED}
        for name in OF_TIMED_STEPS:
            values = [getattr(interval, name) for interval in (self, other) if interval.timed]
            added[name] = None if not values or None in values else sum(values)
        flops = self.total_model_flops, other.total_model_flops
        peaks = [one.peak_bytes for one in (self, other) if one.peak_bytes is not None]
        return replace(
            other,
            **added,
            first=self.first,
            total_model_flops=None if None in flops else known_sum(flops),
            peak_bytes=max(peaks, default=None),
            energy=known_sum((self.energy, other.energy)),
            idle_watts=self.idle_watts if other.idle_watts is None else other.idle_watts,
        )


@dataclass(frozen=True)
class SlowStep:
    """A step that took far longer than the median of those before it, and which of its parts grew."""

    step: int
    """Its number."""
    seconds: float
    """How long it took."""
    usual: float
    """The median of the steps before it."""
    why: str
    """What grew, in words."""


@dataclass(frozen=True)
class Run(InNotebooks):
    """A monitored run; `flopsight.load` reads one, also while it is still being written."""

    model: str = ""
    """The class of the model."""
    environment: Environment = field(default_factory=Environment)
    """Where and with what it ran."""
    world: World = field(default_factory=World)
    """The processes that trained together."""
    intervals: tuple[Interval, ...] = ()
    """Neighbours are joined if there are too many, so every step is in exactly one of them."""
    slow: tuple[SlowStep, ...] = ()
    """Steps that took far longer than those before them."""
    median_seconds: float | None = None
    """Median time of a step."""
    quartiles: tuple[float, float] | None = None
    """A quarter of the steps is faster than the first, a quarter slower than the second."""
    shapes: int = 0
    """How many different calls of the model were counted."""
    notes: tuple[str, ...] = ()
    """What is not known, or not as it should be."""
    profile: Profile | None = None
    """The first counted call of the model, by module."""

    @property
    def whole(self) -> Interval | None:
        """All steps as one interval; None if there was none."""
        return whole_of(self.intervals)

    @property
    def steps(self) -> int:
        """How many steps there were."""
        return sum(interval.steps for interval in self.intervals)

    def save(self, path: str | Path) -> Path:
        """Write a file, `path`, that `flopsight.load` and `flopsight show` open."""
        from ..files.run_file import save_run

        return save_run(self, path)

    def to_html(self, path: str | Path) -> Path:
        """Write a page to `path` with MFU, tokens, memory and data wait over time."""
        from ..files.whole_files import write_text
        from ..render.run_html import page

        return write_text(path, page(self))

    def render(self, format: str = "run") -> str:
        """The run as text, the only `format`."""
        from ..render.run_page import text

        if format != "run":
            raise InputError(f"A run is drawn as text (`run`) or as a page (`html`), not as {format!r}.")
        return text(self)

    def __repr__(self) -> str:
        return f"<Run of {self.model or 'a loop'}: {self.steps:,} steps, {len(self.slow)} slow>"

    def __str__(self) -> str:
        return self.render()


def whole_of(intervals: Sequence[Interval]) -> Interval | None:
    """All intervals as one; None if there are none."""
    if not intervals:
        return None
    whole = intervals[0]
    for interval in intervals[1:]:
        whole = whole.joined(interval)
    return whole


def thinned(intervals: Sequence[Interval], most: int) -> tuple[Interval, ...]:
    """At most so many intervals: neighbours are joined, no step is lost."""
    kept = list(intervals)
    while len(kept) > most:
        pairs = [kept[at : at + 2] for at in range(0, len(kept), 2)]
        kept = [pair[0].joined(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return tuple(kept)
