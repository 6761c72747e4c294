"""What a one-shot profiler saw of a model's calls, and the profile that comes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from ..analysis.times import with_times
from ..capture.count.tape import Tape
from ..capture.model.run import Run
from ..capture.time.loop_marks import ModelCall, each_model
from ..capture.time.module_marks import Timer
from ..caveats import Caveat, CountedLive, Note, NoTwin, OtherPath
from ..run_profile import Ignored, Options, build_profile
from ..tree import Profile, Stat, Timing


@dataclass
class SeenCalls:
    """Counts, times and doubts of all calls between a start and a stop."""

    timer: Timer
    whole: list[Caveat] = field(default_factory=list)
    """Why only the whole is timed, and not every module."""
    tape: Tape | None = None
    seconds: float = 0.0
    calls: list[ModelCall] = field(default_factory=list)
    first: Run | None = None
    """A run like the first one, on the same device, that keeps none of the user's memory alive."""
    why_live: str = ""
    """Why calls are counted while they run."""
    why_again: str = ""
    """Why calls are made a second time to be counted."""
    raised: str = ""
    """The exception that ended the profile."""
    cut_short: bool = False
    """True if the count, too, ended where the exception was raised."""

    def take(self, tape: Tape) -> None:
        """Add the counts of a call."""
        if self.tape is None:
            self.tape = tape
        else:
            self.tape.add(tape)

    def profile(self, ignored: Ignored | None) -> Profile:
        """The profile of all calls; costs and times are sums."""
        assert self.tape is not None
        # in the model's own rows: a twin has whole parameters where the model has shards
        result = build_profile(self.tape, self.timer.sites, Options(run=self.first, ignored=ignored))
        return replace(
            result,
            root=with_times(result.root, {"": self.seconds} if self.whole else self.timer.sums()),
            timing=Timing(forward=Stat((self.seconds,))),
            batch_size=each_model(self.calls, "samples"),
            tokens=each_model(self.calls, "tokens"),
            caveats=(*result.caveats, *self._doubts(self.tape)),
        )

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
        """A caveat where the counted runs did not call the modules that the timed ones called, by their marks."""
        if self.whole or tape.direct_forwards or tape.elsewhere:
            return []
        timed = self.timer.entered()
        counted = Counter({call.module: call.calls for call in tape.module_calls()})
        differ = sorted(path for path in timed.keys() | counted.keys() if timed[path] != counted[path])
        return [OtherPath(differ[0], timed[differ[0]], counted[differ[0]], len(differ))] if differ else []
