"""A monitored run as text: the whole run, MFU over time, and the slow steps with what was slow."""

from __future__ import annotations

from collections.abc import Callable

from .. import units
from ..files.printable import one_line
from ..results.run import Interval, Run, thinned

ROWS = 12
"""Rows of the table over time."""
MOST_SLOW = 8


def line(interval: Interval) -> str:
    """One interval in a line."""
    parts = [f"step {interval.last:,}"]
    if interval.mfu is not None:
        parts.append(f"MFU {units.percent(interval.mfu)}")
    if interval.step_seconds is not None:
        parts.append(f"{units.seconds(interval.step_seconds)} a step")
    if interval.model_flops is not None:
        parts.append(f"{units.si(interval.model_flops, 'FLOP')} a step")
    if interval.tokens_per_second is not None:
        parts.append(f"{units.si(interval.tokens_per_second)} tokens/s")
    elif interval.samples_per_second is not None:
        parts.append(f"{units.si(interval.samples_per_second)} samples/s")
    if interval.peak_bytes is not None:
        parts.append(f"peak {units.size(interval.peak_bytes)}")
    if interval.joules is not None:
        parts.append(f"{_joules(interval.joules)} a step")
    return "flopsight: " + ", ".join(parts)


def text(run: Run) -> str:
    """The run as text."""
    whole = run.whole
    if whole is None:
        return "\n".join(["No step was seen.", *map(one_line, run.notes)])
    lines = [f"{one_line(run.model) or 'A run'}: {_steps(run.steps)}, {where(run)}".rstrip(", "), ""]
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
        ("MFU", _share(whole.mfu)),
        ("HFU", _share(whole.hfu) if whole.hfu != whole.mfu else None),
        ("model FLOPs a step", _si(whole.model_flops, "FLOP")),
        ("step, median", _spread(run)),
        ("step, mean", None if whole.step_seconds is None else units.seconds(whole.step_seconds)),
        ("waiting for data", _wait(whole)),
        ("tokens", _si(whole.tokens_per_second, "/s")),
        ("samples", _si(whole.samples_per_second, "/s")),
        ("peak memory", None if whole.peak_bytes is None else units.size(whole.peak_bytes)),
        ("energy a step", _energy(whole)),
        ("energy a token", _joules(whole.joules_per_token)),
        ("energy a sample", _joules(whole.joules_per_sample)),
        ("updates skipped", f"{whole.skipped:,}" if whole.skipped else None),
        ("validation, apart", _validation(whole)),
        ("steps interpolated", f"{whole.estimated:,}" if whole.estimated else None),
        ("kinds of calls counted", f"{run.shapes:,}" if run.shapes else None),
    ]
    return [(name, value) for name, value in found if value is not None]


def _steps(number: int) -> str:
    return f"{number:,} step{'s' if number != 1 else ''}"


def _share(value: float | None) -> str | None:
    return None if value is None else units.percent(value)


def _si(value: float | None, unit: str) -> str | None:
    return None if value is None else units.si(value, unit)


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
    if whole.joules is None:
        return None
    idle = _joules(whole.idle_joules)
    return _joules(whole.joules) if idle is None else f"{_joules(whole.joules)}, of which {idle} idle power"


def _joules(value: float | None) -> str | None:
    if value is None:
        return None
    return units.si(value, "J") if value >= 1 else units.si(1000 * value, "mJ")


def _validation(whole: Interval) -> str | None:
    if not whole.validations:
        return None
    calls = f"{whole.validations:,} call{'s' if whole.validations != 1 else ''}"
    return f"{units.seconds(whole.validation_seconds)}, {calls}"


def _table(rows: tuple[Interval, ...]) -> list[str]:
    columns = {
        "steps": [f"{row.first:,}-{row.last:,}" if row.steps > 1 else f"{row.first:,}" for row in rows],
        "step": [_seconds(row.step_seconds) for row in rows],
        "MFU": [_share(row.mfu) or "" for row in rows],
        "FLOPs": [_si(row.model_flops, "") or "" for row in rows],
        "tokens/s": [_si(row.tokens_per_second, "") or "" for row in rows],
        "samples/s": [_si(row.samples_per_second, "") or "" for row in rows],
        "data wait": [_seconds(row.data_wait_seconds) for row in rows],
        "peak": ["" if row.peak_bytes is None else units.size(row.peak_bytes) for row in rows],
    }
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    widths = {title: max(len(title), *map(len, cells)) for title, cells in shown.items()}
    head = "  ".join(title.rjust(widths[title]) for title in shown)
    return [
        f"  {head}",
        *("  " + "  ".join(shown[title][at].rjust(widths[title]) for title in shown) for at in range(len(rows))),
    ]


def _seconds(value: float | None) -> str:
    return "" if value is None else units.seconds(value)
