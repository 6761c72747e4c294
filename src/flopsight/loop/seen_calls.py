"""What a one-shot profiler saw of a model's calls, and the profile that comes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from ..analysis.times import with_times
from ..capture.count.tape import Tape
from ..capture.model.model_run import ModelRun
from ..capture.time.loop_marks import ModelCall, each_model
from ..capture.time.module_marks import Timer
from ..engine.run_profile import Ignored, Options, build_profile
from ..results.caveats import Caveat, CountedLive, Note, NoTwin, OtherPath
from ..results.profile import Profile
from ..results.timings import Stat, Timing

SHORT = 0.05
"""Seconds. A longer call is not made again."""
ENOUGH = 0.25
"""Seconds of calls that were made again, after which no further one is: they have shown what we cost."""


@dataclass
class SeenCalls:
    """Counts, times and doubts of all calls between a start and a stop."""

    timer: Timer
    whole: list[Caveat] = field(default_factory=list)
    """Why only the whole is timed, and not every module."""
    tape: Tape | None = None
    seconds: float = 0.0
    short: float = 0.0
    """Seconds of the calls that are short enough to be made again, whether they were or not."""
    calls: list[ModelCall] = field(default_factory=list)
    first: ModelRun | None = None
    """A run like the first one, on the same device, that keeps none of the user's memory alive."""
    why_live: str = ""
    """Why calls are counted while they run."""
    why_again: str = ""
    """Why calls are made a second time to be counted."""
    raised: str = ""
    """The exception that ended the profile."""
    cut_short: bool = False
    """True if the count, too, ended where the exception was raised."""
    repeated: float = 0.0
    """Seconds of the calls that were made again."""
    plain: float = 0.0
    """What these calls took without marks."""

    def take(self, tape: Tape) -> None:
        """Add the counts of a call."""
        if self.tape is None:
            self.tape = tape
        else:
            self.tape.add(tape)

    def repeats(self, seconds: float) -> bool:
        """Whether a call that took `seconds` is to be made again, to see what it takes without us."""
        if seconds >= SHORT:
            return False
        self.short += seconds
        return self.plain < ENOUGH

    def made_again(self, seconds: float, plain: float | None) -> None:
        """Note a call that was made again, unless that came to nothing."""
        if plain:
            self.repeated += seconds
            self.plain += plain

    @property
    def distortion(self) -> float | None:
        """What short calls took over what they take without us; None if none was made again."""
        return max(1.0, self.repeated / self.plain) if self.plain else None

    def profile(self, ignored: Ignored | None) -> Profile:
        """The profile of all calls; costs and times are sums."""
        assert self.tape is not None
        # in the model's own rows: a twin has whole parameters if the model has shards
        result = build_profile(self.tape, self.timer.sites, Options(run=self.first, ignored=ignored))
        latency = self.seconds - self.short + self.short / (self.distortion or 1.0)
        return replace(
            result,
            root=with_times(result.root, {"": latency} if self.whole else self._rows(latency)),
            timing=Timing(forward=Stat((latency,)), distortion=self.distortion),
            batch_size=each_model(self.calls, "samples"),
            tokens=each_model(self.calls, "tokens"),
            caveats=(*result.caveats, *self._doubts(self.tape)),
        )

    def _rows(self, latency: float) -> dict[str, float]:
        """Seconds by module, scaled so that they add up to the latency shown."""
        rows = self.timer.sums()
        root_alone = all(not call.site.path for call in self.calls)
        measured = rows.get("", 0.0) if root_alone else self.seconds
        return {path: latency * (seconds / measured) for path, seconds in rows.items()} if measured else rows

    def _doubts(self, tape: Tape) -> list[Caveat]:
        doubts: list[Caveat] = [*self.whole]
        if self.why_live:
            doubts.append(CountedLive(self.why_live))
        elif self.why_again:
            doubts.append(NoTwin(self.why_again))
        if not (self.why_live or self.raised):
            doubts += self._differences(tape)
        if self.raised:
            partly = self.why_live or self.cut_short
            kept = "Costs are those up to there" if partly else "Costs are those of a whole forward"
            doubts.append(
                Note(f"The model raised {self.raised}, which ended the profile. {kept}; the time ends there.")
            )
        return doubts

    def _differences(self, tape: Tape) -> list[Caveat]:
        """A caveat if the counted runs called other modules than the timed ones, according to the marks."""
        if self.whole or tape.direct_forwards or tape.elsewhere:
            return []
        timed = self.timer.entered()
        counted = calls_by_module(tape)
        differ = sorted(path for path in timed.keys() | counted.keys() if timed[path] != counted[path])
        return [OtherPath(differ[0], timed[differ[0]], counted[differ[0]], len(differ))] if differ else []


def calls_by_module(tape: Tape) -> Counter[str]:
    """How often each module was called in a counted run."""
    return Counter({call.module: call.calls for call in tape.module_calls()})
