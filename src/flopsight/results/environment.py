"""Where and with what a result was made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Environment:
    """Where and with what the profile was made."""

    flopsight: str = ""
    """Its version."""
    torch: str = ""
    """The version of torch."""
    python: str = ""
    """The version of Python."""
    device: str = ""
    """As torch calls it: `cuda:0`."""
    device_name: str = ""
    """As the driver calls it."""
    dtype: str = ""
    """That of most parameters."""
    threads: int = 0
    """Threads that torch used on the CPU."""
    made: str = ""
    """When, in ISO 8601."""
    job: str = ""
    """What the launcher calls the job, if several processes run together."""


NOT_STATED = Environment()
