"""How long threads waited for a free core, as Linux counts it: other programs, or too many threads, had all of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

THREADS = Path("/proc/self/task")

Waits = Mapping[str, float]
"""Seconds for which each thread has waited since it began, by its number."""


def core_waits() -> Waits:
    """The waits of this process's threads; none where the system does not count them."""
    waits: dict[str, float] = {}
    with suppress(OSError):
        for thread in THREADS.iterdir():
            with suppress(OSError, ValueError):  # it has ended meanwhile, or the system counts nothing
                _, waited, _ = (thread / "schedstat").read_bytes().split()
                waits[thread.name] = int(waited) / 1e9
    return waits


def longest_wait(before: Waits, after: Waits) -> float:
    """Seconds that the thread which waited longest has waited in between.

    >>> longest_wait({"1": 2.0, "2": 5.0}, {"1": 2.5, "2": 5.0, "3": 0.25})
    0.5
    """
    return max((seconds - before.get(thread, 0.0) for thread, seconds in after.items()), default=0.0)
