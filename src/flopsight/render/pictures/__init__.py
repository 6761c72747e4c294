"""Pictures of a profile for papers and notebooks, drawn with matplotlib if it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from ...errors import InputError

if TYPE_CHECKING:
    from ...results.profile import Profile
    from .canvas import Picture

MISSING = "Pictures need matplotlib: pip install 'flopsight[plots]'."


def check_installed() -> None:
    """Refuse a picture before the work that it shows, without importing what draws it."""
    if find_spec("matplotlib") is None:
        raise InputError(MISSING)


class Pictures:
    """The pictures of one profile, as figures: a notebook shows them, `savefig` writes them.

    `width` is in inches: 3.4 is a column of a paper, 7 its page.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def icicle(self, by: str | None = None, width: float = 7.0) -> Picture:
        """Modules as bars below the module that they are in; `by` is time, flops, params or saved (activation bytes)."""
        from .icicle_bars import drawn

        return drawn(self.profile, by, width)

    def roofline(self, on: str | None = None, width: float = 7.0) -> Picture:
        """Modules by intensity and rate under the roofs of the profile's device, or of the device `on`."""
        from .roofs import drawn

        return drawn(self.profile, on, width)

    def memory(self, width: float = 7.0) -> Picture:
        """Bytes alive over the step, by kind."""
        from .memory_over_step import drawn

        return drawn(self.profile, width)

    def timeline(self, width: float = 7.0) -> Picture:
        """Modules over the kernels that they ran, in one traced run."""
        from .timeline_bars import drawn

        return drawn(self.profile, width)


def icicle(profile: Profile) -> Picture:
    """The icicle, as a file has it."""
    return Pictures(profile).icicle()


def roofline(profile: Profile, *, on: str | None = None) -> Picture:
    """The roofline of the profile's device, or of the device `on`."""
    return Pictures(profile).roofline(on)


def curve(profile: Profile) -> Picture:
    """Memory over the step."""
    return Pictures(profile).memory()


def timeline(profile: Profile) -> Picture:
    """The traced run."""
    return Pictures(profile).timeline()
