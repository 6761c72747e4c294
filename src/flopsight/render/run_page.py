"""A monitored run as text: the whole run, MFU over time, and the slow steps with what was slow."""

from __future__ import annotations

from .. import units
from ..results.run import Interval, Run, thinned

ROWS = 12
"""Rows of the table over time."""


def line(interval: Interval) -> str:
    """One interval in a line."""
    parts = [f"step {interval.last:,}"]
    if interval.mfu is not None:
        parts.append(f"MFU {units.percent(interval.mfu)}")
    if interval.model_flops is not None:
        parts.append(f"{units.si(interval.model_flops, 'FLOP')} a step")
    if interval.step_seconds is not None:
        parts.append(units.seconds(interval.step_seconds))
    if interval.tokens_per_second is not None:
        parts.append(f"{units.si(interval.tokens_per_second)} tokens/s")
    elif interval.samples_per_second is not None:
        parts.append(f"{units.si(interval.samples_per_second)} samples/s")
    if interval.peak_bytes is not None:
        parts.append(f"peak {units.size(interval.peak_bytes)}")
    if interval.joules is not None:
        parts.append(f"{units.si(interval.joules, 'J')} a step")
    return "flopsight: " + ", ".join(parts)


def text(run: Run) -> str:
    """The run as text."""
    whole = run.whole
    if whole is None:
        return "\n".join(["No step was seen.", *run.notes])
    rows = thinned(run.intervals, ROWS)
    return "\n".join([line(whole), *map(line, rows if len(rows) > 1 else ()), *run.notes])
