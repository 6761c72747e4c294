"""Pictures of a profile for papers and notebooks, drawn with matplotlib if it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...files.whole_files import write_bytes
from ..formats import PICTURE_SUFFIXES

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


def icicle(profile: Profile, path: str | Path, by: str | None = None) -> Path:
    """Write the icicle."""
    return write(Pictures(profile).icicle(by), path)


def roofline(profile: Profile, path: str | Path, *, on: str | None = None) -> Path:
    """Write the roofline of the profile's device, or of the device `on`."""
    return write(Pictures(profile).roofline(on), path)


def curve(profile: Profile, path: str | Path) -> Path:
    """Write memory over the step."""
    return write(Pictures(profile).memory(), path)


def timeline(profile: Profile, path: str | Path) -> Path:
    """Write the traced run."""
    return write(Pictures(profile).timeline(), path)


def write(picture: Any, path: str | Path) -> Path:
    """Write a picture whole or not at all; the suffix says as what."""
    suffix = Path(path).suffix
    if suffix not in PICTURE_SUFFIXES:
        raise InputError(
            f"{path} is not a picture that can be written; its suffix can be {', '.join(PICTURE_SUFFIXES)}."
        )
    return write_bytes(path, picture.encoded(suffix.removeprefix(".")))
