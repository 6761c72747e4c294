"""The phases of a traced run: forward, backward and optimizer, each from its first to its last op or kernel."""

from __future__ import annotations

from dataclasses import replace

from ..results.profile import Profile
from ..results.records import BACKWARD, FORWARD, OPTIMIZER, Span


def traced_phases(profile: Profile) -> list[Span]:
    """One span a phase, in their order; none if the timeline does not know its phases, as in older files.

    What is outside every module counts as forward, also between backward and optimizer: forward ends where backward begins.
    """
    work = [span for span in profile.timeline if span.phase]
    kernels = [span for span in work if span.kind == "kernel"]
    spans = {
        phase: [span for span in kernels or work if span.phase == phase] for phase in (FORWARD, BACKWARD, OPTIMIZER)
    }
    later = min((span.begin for phase in (BACKWARD, OPTIMIZER) for span in spans[phase]), default=None)
    if later is not None:
        spans[FORWARD] = [replace(span, end=min(span.end, later)) for span in spans[FORWARD] if span.begin < later]
    return [
        Span(phase, "phase", inside[0].begin, max(span.end for span in inside), lane=0)
        for phase, inside in spans.items()
        if inside
    ]
