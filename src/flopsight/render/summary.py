"""What every view says beside its rows: what was profiled, the totals, the coverage, the caveats."""

from __future__ import annotations

from collections import Counter
from math import floor

from .. import units
from ..analysis.limits.utilization import above_peak, why_unknown
from ..analysis.summary_facts import Fact, facts, foremost
from ..hardware.named import named_device
from ..results.caveats import BadFormula, UnknownOps
from ..results.profile import Profile


def title(profile: Profile, on: str | None = None) -> str:
    """The model and where it ran: `ResNet (cpu, float32, batch 16, torch 2.13.0)`."""
    said = about(profile, on)
    return f"{profile.root.kind} ({said})" if said else profile.root.kind


def about(profile: Profile, on: str | None = None) -> str:
    """Where a model ran, or the device `on` that it is looked at for, and with what."""
    env = profile.environment
    parts = [
        f"for {named_device(on).name}" if on else env.device_name or env.device,
        f"timed on {env.device_name or env.device}" if on and profile.timing.whole else "",
        _dtypes(profile),
        f"batch {profile.batch_size}" if profile.batch_size else "",
        f"{profile.tokens} tokens" if profile.tokens else "",
        f"step {profile.step}" if profile.step is not None else "",
        f"rank {profile.world.rank} of {profile.world.size}" if profile.world.size > 1 else "",
        "dry run" if profile.dry_run else "",
        f"torch {env.torch}" if env.torch else "",
    ]
    return ", ".join(part for part in parts if part)


def _dtypes(profile: Profile) -> str:
    """What the model holds, and what most of its products run in if that is another: under autocast they differ."""
    held, work = profile.environment.dtype, Counter[str]()
    for node in profile.walk():
        for row in node.ops:
            if row.dtype:
                work[row.dtype] += row.cost.macs
    most = max(work, key=work.__getitem__, default=held)
    return f"{held} with products in {most}" if held and work[most] and most != held else held


def times_of(profile: Profile, on: str | None) -> tuple[str, ...]:
    """Whose times a view shows that looks at a model for a device `on` which did not run it."""
    if on is None or profile.timing.whole is None:
        return ()
    env = profile.environment
    return (f"latency: as measured on {env.device_name or env.device}, not on {named_device(on).name}",)


def totals(profile: Profile) -> list[list[tuple[str, str]]]:
    """The summary in groups of label and text."""
    return [list(map(_pair, group)) for group in facts(profile)]


def _pair(fact: Fact) -> tuple[str, str]:
    return fact.label, units.say(fact.value, fact.unit) + (f"  {fact.note}" if fact.note else "")


def total_lines(profile: Profile, *, full: bool = False) -> tuple[str, ...]:
    """The summary as lines: the foremost facts and how many more there are, or all, with an empty line between groups."""
    groups = totals(profile)
    if full:
        return tuple(line for group in groups for line in ("", *(f"{label:<32}{text}" for label, text in group)))[1:]
    shown = tuple(f"{label:<32}{text}" for label, text in map(_pair, foremost(profile)))
    more = sum(map(len, groups)) - len(shown)
    return (*shown, f"{more} more figures: --full, or full=True") if more else shown


def coverage_lines(profile: Profile) -> tuple[str, ...]:
    """How much of what ran is accounted for, and by name what is not."""
    coverage = profile.coverage
    calls = f"{units.count(coverage.calls)} op calls"
    if coverage.complete:
        return (f"coverage 100% of {calls}",)
    # never rounded up to a 100% that is not there
    share, of_bytes = (floor(part * 1000) / 10 for part in (coverage.share, coverage.bytes_share))
    missed = f"{units.calls(coverage.unknown_calls)} not in the totals:"
    lines = [f"coverage {share}% of {calls}, {of_bytes}% of the bytes they move; {missed}"]
    for op, missing in coverage.unknown.items():
        places = ", ".join(path or "the model itself" for path in missing.modules[:3])
        more = f" and {len(missing.modules) - 3} more" if len(missing.modules) > 3 else ""
        where = f" in {places}{more}" if places else ""
        remedy = f'Say what it costs: @flopsight.formula("{op}")'
        # a formula that raised is written already: its error says what to mend
        said = missing.why if missing.failed else remedy
        lines.append(f"  {op}: {units.calls(missing.calls)}{where}. {said[:1].upper()}{said[1:]}")
    return tuple(lines)


def caveats(profile: Profile) -> tuple[str, ...]:
    """The caveats that `coverage_lines` does not show already."""
    doubts = [str(caveat) for caveat in profile.caveats if not isinstance(caveat, UnknownOps | BadFormula)]
    if profile.trained and profile.timing.forward and profile.mfu is None:
        doubts.append(f"MFU is not known: {why_unknown(profile)}")
    if profile.mfu is not None and profile.mfu > 1:
        doubts.append(above_peak(profile))
    return tuple(doubts)


def caveat_lines(profile: Profile) -> tuple[str, ...]:
    """The caveats, one line each."""
    return tuple(f"note: {caveat}" for caveat in caveats(profile))
