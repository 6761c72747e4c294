"""The first lines about a profile: what it costs, takes, how far that is from the limit, what binds; and all that could be changed."""

from __future__ import annotations

from .. import units
from ..results.ceilings import Ceilings
from ..results.job import Job
from ..results.profile import Profile
from .findings import Finding, findings, job_findings
from .limits.roofline import ABOVE, ceilings_for, node_bound, profile_limit, roof_of
from .limits.utilization import lasting, seconds_at_peak, step_seconds
from .summary_facts import records_gradients

LABEL = 10


def headline(profile: Profile, on: str | None = None) -> list[str]:
    """Five lines; on a named device what holds there: the least time, whether the memory is enough, the highest MFU."""
    lines = [("costs", _costs(profile)), ("takes", _takes(profile, on)), ("limit", _limit(profile, on))]
    lines += [("bound by", _bound(profile, on)), ("first", _first(profile, on))]
    return [f"{name:<{LABEL}}{text}" for name, text in lines]


def limit_unknown(profile: Profile, on: str | None = None) -> str:
    """Why there is no limit, and what to do about it."""
    ceilings = ceilings_for(profile, on)
    device = profile.environment.device_name or profile.environment.device or "the device"
    if ceilings is None and device == "meta":
        return "it was counted on no device; --on h100-sxm names one"
    if ceilings is None and profile.peak_flops:
        return f"how fast the memory of {device} is, is not known; flopsight device --measure finds it"
    if ceilings is None:
        return f"no peak of {device} is known; flopsight device --measure finds it, --on h100-sxm names another device"
    return f"{ceilings.name} has no known peak in a dtype that the model runs in; state it in FLOPSIGHT_PEAK_FLOPS"


def ceilings_text(ceilings: Ceilings) -> str:
    """`measured on this machine (2026-11-15)` or `datasheet of NVIDIA H200`."""
    how = f"measured {ceilings.made[:10]} on {ceilings.name}" if ceilings.measured else f"datasheet of {ceilings.name}"
    shown = ", ".join(f"{units.rate(rate)} {dtype}" for dtype, rate in ceilings.flops.items() if dtype in SHOWN)
    memory = f"{units.si(ceilings.bandwidth, 'B/s')}" if ceilings.bandwidth else ""
    return ", ".join(part for part in (how, shown, memory) if part)


SHOWN = ("bfloat16", "float32")


def _costs(profile: Profile) -> str:
    times = profile.root.calls
    parts = [
        f"{units.si(profile.flops, 'FLOP')} {f'in {times:,} forwards' if times > 1 and not profile.trained else 'forward'}"
    ]
    if profile.trained:
        parts.append(f"{units.si(profile.backward.flops + profile.recompute.flops, 'FLOP')} backward")
    parts.append(profile.root.params_text.replace("params", "parameters"))
    if profile.peak_bytes:
        parts.append(
            f"{units.size(profile.peak_bytes)} at the peak{', gradients recorded' if records_gradients(profile) else ''}"
        )
    return ", ".join(parts)


def _takes(profile: Profile, on: str | None) -> str:
    if on is not None:
        return _at_least(profile, on)
    seconds = step_seconds(profile)
    if seconds is None:
        return "not timed"
    parts = [lasting(profile, seconds)]
    if profile.throughput:
        parts.append(units.say(profile.throughput, "samples/s"))
    if profile.mfu is not None:
        parts.append(f"MFU {units.percent(profile.mfu)}")
    return ", ".join(parts)


def _at_least(profile: Profile, on: str) -> str:
    """On a device that is not here: the least time, the memory, the highest MFU."""
    limit, ceilings = profile_limit(profile, on), ceilings_for(profile, on)
    if limit is None or ceilings is None:
        return limit_unknown(profile, on)
    parts = [f"at least {lasting(profile, limit)} on {ceilings.name}"]
    needed = seconds_at_peak(profile, on, causal=True)  # as the limit counts it; dense work could be above the peak
    if needed and limit:
        masked = needed != seconds_at_peak(profile, on)
        parts.append(
            f"MFU at most {units.percent(needed / limit)}{' (the masked half of attention left out)' if masked else ''}"
        )
    if profile.peak_bytes and ceilings.memory:
        verdict = "fits" if profile.peak_bytes <= ceilings.memory else "does not fit"
        parts.append(f"{units.size(profile.peak_bytes)} of {units.size(ceilings.memory)} of memory: {verdict}")
    return ", ".join(parts)


def _limit(profile: Profile, on: str | None) -> str:
    limit, ceilings = profile_limit(profile, on), ceilings_for(profile, on)
    if limit is None or ceilings is None:
        return f"not known: {limit_unknown(profile, on)}"
    seconds = step_seconds(profile) if on is None else None
    share = f", {units.percent(min(1.0, limit / seconds))} of the time" if seconds else ""
    if seconds and limit > ABOVE * seconds:
        share += ", which is shorter"
    how = "measured ceilings" if ceilings.measured else "datasheet"
    return f"{units.seconds(limit)}{share} ({how} of {ceilings.name})"


def _bound(profile: Profile, on: str | None) -> str:
    ceilings = ceilings_for(profile, on)
    bound = node_bound(profile.root, on) if ceilings else None
    roof = roof_of(profile.root, ceilings, dtype=profile.environment.dtype) if ceilings else None
    if roof is None:
        return "not known"
    if not roof.limit:
        return bound or "nothing: no op does any work"
    compute = roof.at_peak / roof.limit
    return f"{bound}: {units.percent(compute)} of the limit is in ops that compute binds, {units.percent(1 - compute)} in ops that memory binds"


def _first(profile: Profile, on: str | None) -> str:
    found = findings(profile, on)
    if not found:
        return "nothing found to change"
    more = f" ({len(found) - 1} more: flopsight advise)" if len(found) > 1 else ""
    return f"{found[0]}{more}"


def advice_lines(found: Profile | Job, on: str | None = None) -> list[str]:
    """Ranked findings of a profile or a job, and against which ceilings they were made."""
    profile = found.model if isinstance(found, Job) else found
    ranked = job_findings(found, on) if isinstance(found, Job) else findings(found, on)
    lines = [line for place, finding in enumerate(ranked, start=1) for line in _advised(place, finding)]
    if not ranked:
        lines.append("Nothing found to change.")
    if len(ranked) > 1:
        lines.append("Wins are upper bounds and overlap: they do not add up.")
    ceilings = ceilings_for(profile, on)
    if ceilings is None or profile_limit(profile, on) is None:
        lines.append(f"Findings that need a limit were left out: {limit_unknown(profile, on)}.")
    else:
        lines.append(f"Ceilings: {ceilings_text(ceilings)}.")
    return lines


def _advised(place: int, finding: Finding) -> list[str]:
    return [
        f"{place}. {finding.what} ({finding.name})",
        f"   where     {finding.place}",
        f"   evidence  {finding.evidence}",
        f"   {'missing' if finding.blocks else 'to win':<9} {finding.win}",
        f"   next      {finding.next_move}",
        "",
    ]
