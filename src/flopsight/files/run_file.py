"""A monitored run as a file of JSON lines: one line for each interval, appended while the run goes on.

The first line also says what the run is. Each line has the figures by the names that trackers see, and the sums from
which intervals are joined, so that a file that was cut off anywhere is a whole run up to there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..errors import OutputError, ProfileFileError
from ..results.run import Interval, Run, SlowStep, thinned
from .codec import DamagedError
from .store import CODEC
from .whole_files import write_text

KIND = "flopsight run"
SCHEMA = 1
MOST_INTERVALS = 5000
"""Intervals that a run has in memory; neighbours are joined."""
MOST_PENDING = 1000
VALUES = CODEC
HEAD = ("model", "environment", "world", "profile")
TOTALS = ("median_seconds", "quartiles", "shapes")
"""Fields of a run that the first line of its file has, and those that any line may have."""


def _all_but(*names: str) -> set[str]:
    return {one.name for one in fields(Run)} - {*names}


_write_head, _read_head = (make(Run, _all_but(*HEAD)) for make in (VALUES.fields_encoder, VALUES.fields_decoder))
totals_of = VALUES.fields_encoder(Run, _all_but(*TOTALS, "notes"))
"""What a line says of the run up to it."""
_read_totals = VALUES.fields_decoder(Run, _all_but(*TOTALS))


def is_run(contents: str) -> bool:
    """Whether a text is a monitored run."""
    return contents[:60].replace(" ", "").startswith(f'{{"kind":"{KIND.replace(" ", "")}"')


def line_of(interval: Interval, run: Run | None = None, **extra: Any) -> str:
    """An interval as a line; `run` is there in the first one."""
    page: dict[str, Any] = {"kind": KIND, "schema": SCHEMA, **interval.figures(), "interval": VALUES.encode(interval)}
    if run is not None:
        page["run"] = _write_head(run)
    return json.dumps(page | {name: value for name, value in extra.items() if value}, separators=(",", ":"))


def save_run(run: Run, path: str | Path) -> Path:
    """Write a whole run."""
    return write_text(path, "".join(f"{line}\n" for line in _lines(run)))


def _lines(run: Run) -> Iterator[str]:
    slow = list(run.slow)
    if not run.intervals:
        yield json.dumps({"kind": KIND, "schema": SCHEMA, "run": _write_head(run), **totals_of(run)})
    for at, interval in enumerate(run.intervals):
        inside = [VALUES.encode(step) for step in slow if interval.first <= step.step <= interval.last]
        last = at + 1 == len(run.intervals)
        yield line_of(interval, run if not at else None, slow=inside, **(totals_of(run) if last else {}))


def load_run(contents: str, source: str) -> Run:
    """A run from the text of its file; a last line that is still being written is left out."""
    lines = contents.split("\n")
    run, intervals, slow = Run(), list[Interval](), list[SlowStep]()
    notes: dict[str, None] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            page = json.loads(line)
        except ValueError:
            if number == len(lines):
                notes["The file ends within a line: the run is still going on, or was cut off there."] = None
                continue
            raise ProfileFileError(f"{source} is a damaged flopsight run: line {number} is not JSON.") from None
        try:
            if "run" in page:  # a run that was continued in the same file
                run, intervals, slow = Run(**_read_head(page["run"])), [], []
            if "interval" in page or "run" not in page:  # a run without steps has its head only
                intervals.append(VALUES.decode(Interval, page["interval"]))
            slow += [VALUES.decode(SlowStep, step) for step in page.get("slow", ())]
            run = replace(run, **_read_totals(page))
            notes |= dict.fromkeys(page.get("notes", ()))
        except (DamagedError, KeyError, TypeError, AttributeError) as problem:
            raise ProfileFileError(f"{source} is a damaged flopsight run: line {number}{problem}.") from None
    return replace(run, intervals=thinned(intervals, MOST_INTERVALS), slow=tuple(slow), notes=tuple(notes))


@dataclass
class LineFile:
    """A file that grows by whole lines; what a full disk did not take is kept, and written when there is room."""

    path: Path
    pending: list[str] = field(default_factory=list)

    def append(self, line: str) -> None:
        """Add a line, and those that could not be written before."""
        self.pending.append(line)
        del self.pending[:-MOST_PENDING]
        data = "".join(f"{each}\n" for each in self.pending).encode()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                before = file.tell()
                try:
                    if file.write(data) != len(data):
                        raise OSError("the disk is full")  # noqa: TRY301
                except OSError:
                    file.truncate(before)
                    raise
        except OSError as problem:
            raise OutputError(f"{self.path} cannot be written: {problem.strerror or problem}") from None
        self.pending.clear()
