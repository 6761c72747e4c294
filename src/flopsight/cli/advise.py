"""`flopsight advise`: what to change in a profiled model, and what it brings at most."""

from __future__ import annotations

from ..files.store import load_static
from ..results.generation import Generation
from . import options


def advise(profile: options.ProfileFile, on: options.On = None) -> None:
    """List what could be changed, the largest win first, each with its evidence and the next move."""
    from ..analysis.headline import advice_lines

    found = load_static(profile)
    print("\n".join(advice_lines(found.middle if isinstance(found, Generation) else found, on)))
