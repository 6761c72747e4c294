"""Findings as lines of text."""

from __future__ import annotations

from ..results.job import Job
from ..results.profile import Profile
from .findings import Finding, findings, job_findings
from .headline import ceilings_text, limit_unknown
from .limits.roofline import ceilings_for, profile_limit


def advice_lines(found: Profile | Job, on: str | None = None) -> list[str]:
    """Ranked findings of a profile or a job, and against which ceilings they were made."""
    profile = found.model if isinstance(found, Job) else found
    ranked = job_findings(found, on) if isinstance(found, Job) else findings(found, on)
    lines = [line for place, finding in enumerate(ranked, start=1) for line in _lines(place, finding)]
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


def _lines(place: int, finding: Finding) -> list[str]:
    return [
        f"{place}. {finding.what} ({finding.name})",
        f"   where     {finding.place}",
        f"   evidence  {finding.evidence}",
        f"   {'missing' if finding.blocks else 'to win':<9} {finding.win}",
        f"   next      {finding.next_move}",
        "",
    ]
