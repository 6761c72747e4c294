"""A monitored run as text: the whole run, MFU over time, and the slow steps with what was slow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .. import units
from ..files.printable import one_line
from ..results.run import Interval, Run, thinned
from .page import Column, Grid
from .plain import grid_lines

ROWS = 12
"""Rows of the table over time."""
MOST_SLOW = 8


def line(interval: Interval) -> str:
    """One interval in a line."""
    tokens = _said(interval.tokens_per_second, units.si, "{} tokens/s")
    parts = [
        f"step {interval.last:,}",
        _said(interval.mfu, units.percent, "MFU {}"),
        _said(interval.step_seconds, units.seconds, "{} a step"),
        _said(interval.model_flops, _flops, "{} a step"),
        tokens or _said(interval.samples_per_second, units.si, "{} samples/s"),
        _said(interval.peak_bytes, units.size, "peak {}"),
        _said(interval.joules, _joules, "{} a step"),
    ]
    return "flopsight: " + ", ".join(part for part in parts if part is not None)


def text(run: Run) -> str:
    """The run as text."""
    whole = run.whole
    if whole is None:
        return "\n".join(["No step was seen.", *map(one_line, run.notes)])
    steps = f"{run.steps:,} step{'s' if run.steps != 1 else ''}"
    lines = [f"{one_line(run.model) or 'A run'}: {steps}, {where(run)}".rstrip(", "), ""]
    lines += [f"  {name:<24}{value}" for name, value in facts(run)]
    rows = thinned(run.intervals, ROWS)
    if len(rows) > 1:
        lines += ["", "Over time", *_table(rows)]
    if run.slow:
        lines += ["", f"Slow steps ({len(run.slow)} of {run.steps:,})"]
        slowest = sorted(run.slow, key=lambda slow: -slow.seconds)[:MOST_SLOW]
        lines += [
            f"  step {slow.step:<8,}{units.seconds(slow.seconds):>9}, usually {units.seconds(slow.usual)}: "
            f"{one_line(slow.why)}"
            for slow in sorted(slowest, key=lambda slow: slow.step)
        ]
    lines += ["", *map(one_line, run.notes)] if run.notes else []
    return "\n".join(lines)


def difference(before: Run, after: Run) -> str:
    """What changed from one run to another, a line for each figure that both have."""
    one, other = before.whole, after.whole
    if one is None or other is None:
        return "One of the runs has no steps, so there is nothing to compare."
    read: list[tuple[str, float | None, float | None, Callable[[float], str]]] = [
        ("MFU", one.mfu, other.mfu, units.percent),
        ("HFU", one.hfu, other.hfu, units.percent),
        ("model FLOPs a step", one.model_flops, other.model_flops, units.si),
        ("step, median", before.median_seconds, after.median_seconds, units.seconds),
        ("waiting for data", one.data_wait_seconds, other.data_wait_seconds, units.seconds),
        ("tokens/s", one.tokens_per_second, other.tokens_per_second, units.si),
        ("samples/s", one.samples_per_second, other.samples_per_second, units.si),
        ("peak memory", one.peak_bytes, other.peak_bytes, units.size),
        ("joules a step", one.joules, other.joules, units.si),
        ("slow steps", len(before.slow), len(after.slow), lambda number: f"{number:,.0f}"),
    ]
    lines, same = [f"{before.steps:,} steps, then {after.steps:,}"], []
    for name, was, now, drawn in read:
        if was is None or now is None:
            continue
        if drawn(was) == drawn(now):
            same.append(name)
        else:
            change = f"{(now - was) / was:+.1%}" if was else ""
            lines.append(f"  {name:<20}{drawn(was):>12} -> {drawn(now):>12}  {change}".rstrip())
    return "\n".join([*lines, *([f"  the same: {', '.join(same)}"] if same else [])])


def where(run: Run) -> str:
    """The device and the rank."""
    name = one_line(run.environment.device_name or run.environment.device)
    return f"{name}, rank {run.world.rank} of {run.world.size}" if run.world.size > 1 else name


def facts(run: Run) -> list[tuple[str, str]]:
    """Names and values of the whole run; what is not known is left out."""
    whole = run.whole
    assert whole is not None
    found: list[tuple[str, str | None]] = [
        ("MFU", _said(whole.mfu, units.percent)),
        ("HFU", _said(whole.hfu, units.percent) if whole.hfu != whole.mfu else None),
        ("model FLOPs a step", _said(whole.model_flops, _flops)),
        ("step, median", _spread(run)),
        ("step, mean", _said(whole.step_seconds, units.seconds)),
        ("waiting for data", _wait(whole)),
        ("tokens", _said(whole.tokens_per_second, _per_second)),
        ("samples", _said(whole.samples_per_second, _per_second)),
        ("peak memory", _said(whole.peak_bytes, units.size)),
        ("energy a step", _energy(whole)),
        ("energy a token", _said(whole.joules_per_token, _joules)),
        ("energy a sample", _said(whole.joules_per_sample, _joules)),
        ("updates skipped", f"{whole.skipped:,}" if whole.skipped else None),
        ("validation, apart", _apart(whole.validation_seconds, whole.validations, "call")),
        ("checkpoints, apart", _apart(whole.saving_seconds, whole.saves, "file")),
        ("steps estimated", f"{whole.estimated:,}" if whole.estimated else None),
        ("kinds of calls counted", f"{run.shapes:,}" if run.shapes else None),
    ]
    return [(name, value) for name, value in found if value is not None]


def tiles(run: Run) -> list[tuple[str, str, str]]:
    """The headline figures: each a name, a value and a note; what is not known is left out."""
    whole = run.whole
    if whole is None:
        return []
    hfu = _said(whole.hfu, units.percent, "HFU {}") if whole.hfu != whole.mfu else None
    ends = "" if run.quartiles is None else "half of them from {} to {}".format(*map(units.seconds, run.quartiles))
    worst = max(run.slow, key=lambda slow: slow.seconds, default=None)
    slowest = (
        f"of {run.steps:,}" if worst is None else f"the slowest: step {worst.step:,}, {units.seconds(worst.seconds)}"
    )
    tokens = _said(whole.tokens_per_second, units.si)
    figures: list[tuple[str, str | None, str]] = [
        ("MFU", _said(whole.mfu, units.percent), hfu or ""),
        ("Tokens a second", tokens, "of this process"),
        ("Samples a second", None if tokens else _said(whole.samples_per_second, units.si), "of this process"),
        ("A step, median", _said(run.median_seconds, units.seconds), ends),
        ("Peak memory", _said(whole.peak_bytes, units.size), "of the process" if whole.allocated_bytes is None else ""),
        ("Slow steps", f"{len(run.slow):,}", slowest),
    ]
    return [(name, value, note) for name, value, note in figures if value is not None]


def verdict(run: Run) -> str:
    """What the figures say of the run, in a sentence or two."""
    whole = run.whole
    if whole is None:
        return "No step was seen."
    found = [_said(whole.mfu, units.percent, "The model's products take {} of the device's peak.")]
    if whole.seconds and whole.timed:
        found.append(f"Waiting for data takes {units.percent(whole.waited / whole.seconds)} of the time.")
    if whole.skipped:
        found.append(f"The gradient scaler skipped {whole.skipped:,} updates.")
    return " ".join(one for one in found if one is not None) or "No step has a time of its own."


def _said(value: float | None, text: Callable[[float], str], around: str = "{}") -> str | None:
    """A value as text inside other words; None if it is not known."""
    return None if value is None else around.format(text(value))


_flops, _per_second = partial(units.si, unit="FLOP"), partial(units.si, unit="/s")


def _spread(run: Run) -> str | None:
    if run.median_seconds is None:
        return None
    middle = units.seconds(run.median_seconds)
    if run.quartiles is None or run.steps < 4:
        return middle
    low, high = map(units.seconds, run.quartiles)
    return f"{middle}, half of them from {low} to {high}"


def _wait(whole: Interval) -> str | None:
    if whole.data_wait_seconds is None or not whole.seconds:
        return None
    return f"{units.seconds(whole.data_wait_seconds)} a step ({units.percent(whole.waited / whole.seconds)})"


def _energy(whole: Interval) -> str | None:
    used, idle = _said(whole.joules, _joules), _said(whole.idle_joules, _joules, ", of which {} idle power")
    return None if used is None else f"{used}{idle or ''}"


def _joules(value: float) -> str:
    return units.si(value, "J") if value >= 1 else units.si(1000 * value, "mJ")


def _apart(seconds: float, number: int, thing: str) -> str | None:
    if not number:
        return None
    return f"{units.seconds(seconds)}, {number:,} {thing}{'s' if number != 1 else ''}"


def _table(rows: tuple[Interval, ...]) -> list[str]:
    columns: dict[str, list[str | None]] = {
        "steps": [f"{row.first:,}-{row.last:,}" if row.steps > 1 else f"{row.first:,}" for row in rows],
        "step": [_said(row.step_seconds, units.seconds) for row in rows],
        "MFU": [_said(row.mfu, units.percent) for row in rows],
        "FLOPs": [_said(row.model_flops, units.si) for row in rows],
        "tokens/s": [_said(row.tokens_per_second, units.si) for row in rows],
        "samples/s": [_said(row.samples_per_second, units.si) for row in rows],
        "data wait": [_said(row.data_wait_seconds, units.seconds) for row in rows],
        "peak": [_said(row.peak_bytes, units.size) for row in rows],
    }
    shown = {title: tuple(cell or "" for cell in cells) for title, cells in columns.items() if any(cells)}
    grid = Grid(tuple(Column(title, cells) for title, cells in shown.items()))
    head, _rule, *lines = grid_lines(grid)
    return [f"  {line}" for line in (head, *lines)]
