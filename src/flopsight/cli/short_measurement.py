"""Ceilings for `demo` and `profile` if none of the device are known: a short measurement, once for a machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from .. import units
from ..errors import FlopsightError, OutputError
from ..files.printable import one_line
from ..hardware.detect import Found
from ..results.ceilings import Ceilings
from ..results.generation import Generation
from ..results.profile import Profile
from ..targets.loading import Target

DOUBTFUL = 0.25
"""Spread of the samples from which on a short measurement is made again by the next command."""


def short_measurement(target: Target, say: Callable[[str], None]) -> Ceilings | None:
    """Ceilings that were not known of a target's device; None if some were, or if other ranks run beside this one.

    It is made after the profile, no time of which it can change then.
    """
    import torch

    from ..distributed.topology import rank_and_size
    from ..hardware.detect import detect
    from ..hardware.known_ceilings import ceilings_of, recall
    from ..hardware.measured import SHORT, measure

    device = next((parameter.device for parameter in target.model.parameters()), torch.device("cpu"))
    if device.type == "meta" or rank_and_size()[1] > 1:
        return None
    found, threads = detect(device), torch.get_num_threads()
    known = ceilings_of(found, threads)
    if known is not None and not (known.short and known.busy > DOUBTFUL):
        return None
    begun = perf_counter()
    try:
        measured = measure(found, lambda what: say(f"measuring {what}"), pace=SHORT)
    except (FlopsightError, RuntimeError) as problem:  # no memory left beside the model, for one
        print(f"{found.name} could not be measured: {one_line(str(problem))}", file=sys.stderr)
        return None
    seconds = perf_counter() - begun
    kept = recall(found.name, threads)
    if kept is not None and kept.busy <= measured.busy:
        said = (
            f"Measured {found.name} again in {seconds:.1f} s: the machine is still busy, so the earlier figures stay."
        )
        print(said, file=sys.stderr)
        return None
    print(_told(found, measured, seconds, threads), file=sys.stderr)
    return ceilings_of(found, threads, measured)


def with_ceilings(made: Profile | Generation, ceilings: Ceilings) -> Profile | Generation:
    """What was made, held against ceilings of its device."""
    if isinstance(made, Profile):
        return replace(made, ceilings=ceilings)
    steps = tuple(replace(step, profile=replace(step.profile, ceilings=ceilings)) for step in made.steps)
    return replace(made, prefill=replace(made.prefill, ceilings=ceilings), steps=steps)


def _told(found: Found, measured: Ceilings, seconds: float, threads: int) -> str:
    """One line: what was measured, and where it is kept."""
    from ..hardware.known_ceilings import remember

    dtype, rate = next(iter(measured.flops.items()))
    memory = f", {units.si(measured.bandwidth, 'B/s')} of memory" if measured.bandwidth else ""
    line = f"Measured {found.name} in {seconds:.1f} s, for limits: {units.rate(rate)} in {dtype}{memory}."
    if measured.busy > DOUBTFUL:
        line += " The machine was busy, so the next command measures again."
    try:
        return f"{line} Kept in {remember(measured, threads)}; --no-measure leaves this out."
    except OutputError as problem:
        return f"{line} Not kept: {problem}"
